"""Tests of gating/base_lines.py: a written baseline reads back unchanged."""

from __future__ import annotations

import json

import memreplay as mr
from memreplay.analysis.comparing.baseline import baseline_of
from memreplay.analysis.comparing.baseline_record import Baseline
from memreplay.gating.base_lines import render_baseline
from tests.conftest import ROOT
from tests.unit.render.schemas import check_against

EXAMPLES = ("transformer_step", "leaky_training", "serving_oom")


def test_baseline_is_small_and_fits_the_schema() -> None:
    for name in EXAMPLES:
        snap = mr.open(ROOT / "tests/data" / f"{name}.pkl.gz")
        text = render_baseline(baseline_of(snap))
        assert text.isascii()
        assert len(text) < 24_000
        found = json.loads(text)
        check_against("baseline-1.json", found)
        assert found["file"] == f"{name}.pkl.gz"
        frames = [tuple(frame) for frame in found["frames"]]
        assert len(set(frames)) == len(frames)


def test_empty_baseline_fits_the_schema() -> None:
    nothing = Baseline(file="x.pkl", measure="held", rules="", categories=(), frames=(), devices=())
    found = json.loads(render_baseline(nothing))
    check_against("baseline-1.json", found)
    assert found["devices"] == []


def test_each_group_has_its_own_line() -> None:
    snap = mr.open(ROOT / "tests/data" / "leaky_training.pkl.gz")
    baseline = baseline_of(snap)
    lines = render_baseline(baseline).splitlines()
    groups = sum(len(peak.groups) for device in baseline.devices for peak in device.peaks)
    assert sum('"label"' in line for line in lines) == groups
    assert all(line.count('"label"') <= 1 for line in lines)
