"""Tests of analysis/comparing/baseline.py: the contents of a baseline."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.analysis.comparing.baseline import MOST_ANNOTATIONS, baseline_of, fingerprint
from memreplay.analysis.comparing.baseline_record import Baseline
from memreplay.analysis.comparing.budgets import Budget
from memreplay.errors import UsageError
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT


def scopes(baseline: Baseline) -> list[tuple[str, str | None, str | None]]:
    (device,) = baseline.devices
    return [(peak.measure, peak.category, peak.annotation) for peak in device.peaks]


def test_baseline_has_all_measures_categories_and_annotations() -> None:
    snap = mr.open(ROOT / "tests/data" / "transformer_step.pkl.gz")
    baseline = baseline_of(snap)
    found = scopes(baseline)
    assert found[:5] == [(name, None, None) for name in ("held", "requested", *MEASURES[2:])]
    assert {category for _, category, _ in found if category} == {
        "optimizer state",
        "optimizer temporaries",
        "backward",
        "activations",
        "parameters",  # likely parameters have the same category
        "before the recording: parameters, optimizer state, buffers",
        "unknown",
    }
    assert {name for _, _, name in found if name} == {
        "ProfilerStep",
        "Optimizer.step",
        "Optimizer.zero_grad",
    }
    peaks = baseline.devices[0].peaks
    assert [peak.phase for peak in peaks if peak.phase] == ["forward", "backward", "optimizer"]
    kinds = [(*scope, peak.phase) for scope, peak in zip(found, peaks, strict=True)]
    assert len(set(kinds)) == len(kinds)
    assert [bool(peak.groups) for peak in baseline.devices[0].peaks[:5]] == [True] + [False] * 4
    assert baseline.file == "transformer_step.pkl.gz"
    assert baseline.devices[0].reasons["held"] == ()
    assert baseline.devices[0].reasons["active"] == ("blocks_assumed",)


def test_recorded_categories_are_kept() -> None:
    baseline = baseline_of(mr.open(ROOT / "tests/data" / "recorded_gpt.pkl.gz"))
    named = {category for _, category, _ in scopes(baseline) if category}
    assert {"parameters", "gradients", "optimizer state", "activations"} <= named
    assert "weights (cast)" not in baseline.categories
    assert set(baseline.categories) >= named
    own = (Rule("mine", frames="model"),)
    found = baseline_of(mr.open(ROOT / "tests/data" / "recorded_gpt.pkl.gz"), rules=own)
    assert "gradients" in found.categories


def test_budgeted_categories_are_included() -> None:
    snap = mr.open(ROOT / "tests/data" / "transformer_step.pkl.gz")
    budgets = [
        Budget(category="activations", annotation="ProfilerStep#2", max_growth=0.1),
        Budget(measure="active", category="backward", max_growth=0.1),
        Budget(annotation="Optimizer.step", max_reserved=1),
        Budget(annotation="not there", max_growth=0.1),
        Budget(device=7, measure="requested", category="backward", max_growth=0.1),
    ]
    found = scopes(baseline_of(snap, budgets=budgets))
    assert ("held", "activations", "ProfilerStep#2") in found
    assert ("active", "backward", None) in found
    assert ("reserved", None, "Optimizer.step") in found
    assert ("requested", "backward", None) not in found
    assert not any(annotation == "not there" for _, _, annotation in found)


def test_only_the_highest_annotations_are_kept() -> None:
    builder = SnapshotBuilder()
    for i in range(MOST_ANNOTATIONS + 10):
        builder.annotation(f"part {i:03}#{i}", "START")
        builder.alloc((i + 1) << 20, 512, time_us=1_000_000 + 1000 * i)
        builder.annotation(f"part {i:03}#{i}", "END")
    snap = mr.open(build.dump(builder.build()))
    names = [name for _, _, name in scopes(baseline_of(snap)) if name]
    assert len(names) == MOST_ANNOTATIONS


def test_highest_occurrence_of_an_annotation_counts() -> None:
    """Budgets check the highest occurrence, so the baseline keeps this one rather than the last."""
    builder = SnapshotBuilder()
    for i in range(MOST_ANNOTATIONS + 1):
        builder.annotation(f"part {i:03}", "START")
        builder.alloc((i + 1) << 20, 512, time_us=1_000_000 + 1000 * i)
        if i == MOST_ANNOTATIONS:
            builder.annotation("early and late", "START")
            builder.annotation("early and late", "END")
            for j in range(i):
                builder.free((j + 1) << 20, 512, time_us=2_000_000 + j)
        builder.annotation(f"part {i:03}", "END")
    builder.annotation("early and late", "START")
    builder.alloc(900 << 20, 1, time_us=3_000_000)
    builder.annotation("early and late", "END")
    snap = mr.open(build.dump(builder.build()))
    assert "early and late" in {name for _, _, name in scopes(baseline_of(snap))}


def test_different_rules_have_different_fingerprints() -> None:
    assert fingerprint(DEFAULT_RULES) == fingerprint(tuple(DEFAULT_RULES))
    assert fingerprint(DEFAULT_RULES) != fingerprint(DEFAULT_RULES[1:])
    assert fingerprint((Rule("\ud800", "x"),))


def test_baseline_of_reserved_memory_is_rejected() -> None:
    snap = mr.open(build.dump(SnapshotBuilder().alloc(512, 1).build()))
    with pytest.raises(UsageError, match="reserved memory has no stacks"):
        baseline_of(snap, measure="reserved")


def test_empty_snapshot_is_rejected() -> None:
    snap = mr.open(build.dump(SnapshotBuilder().build()))
    with pytest.raises(UsageError, match="neither events nor segments: nothing was recorded"):
        baseline_of(snap)
