"""Tests of commands/fragmentation/plot.py, if matplotlib is installed."""

from __future__ import annotations

import re

import pytest

import memreplay as mr
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.commands.fragmentation.plot import render_fragmentation_plot
from memreplay.commands.fragmentation.result import FragmentationReport
from memreplay.snapshot.model import When
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.commands.oom.test_find import scattered

pytest.importorskip("matplotlib")


def report(snapshot: build.Snapshot) -> FragmentationReport:
    snap = mr.open(build.dump(snapshot))
    return fragmentation_report(snap, at=When("end"), blocks=True)


def test_svg_is_deterministic() -> None:
    found = report(scattered().dump()[0])
    drawn = render_fragmentation_plot(found, "svg")
    assert drawn == render_fragmentation_plot(found, "svg")
    said = re.findall(r"<!-- (.*?) -->", drawn.decode())
    assert "append /srv/cache.py:27" in said
    assert said.count("default pool, large  20.0 MiB") == 10


def test_png_is_drawn() -> None:
    drawn = render_fragmentation_plot(report(scattered().dump()[0]), "png")
    assert drawn.startswith(b"\x89PNG")


def test_picture_says_that_there_are_no_segments() -> None:
    drawn = render_fragmentation_plot(report(SnapshotBuilder().build()), "svg")
    assert b"no segments at this moment" in drawn


@pytest.mark.filterwarnings("error")
def test_missing_glyphs_give_no_warning() -> None:
    made = SnapshotBuilder().segment_alloc(1 << 20, 2 << 20)
    made.alloc(1 << 20, 512, frames=[("名前", "/w/訓練.py", 1)])
    assert "名前" in render_fragmentation_plot(report(made.build()), "svg").decode()
