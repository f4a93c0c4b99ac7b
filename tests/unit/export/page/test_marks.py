"""Tests of export/page/marks.py: failed requests, snapshots and steps."""

from __future__ import annotations

from pathlib import Path

import pytest

import memreplay as mr
from memreplay.commands.steps.find import steps_report
from memreplay.errors import NothingToTellError
from memreplay.export.page import marks as module
from memreplay.export.page.building import page_data
from memreplay.export.page.marks import marks
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import SNAPSHOTS


def test_ooms_and_snapshots_become_marks() -> None:
    made = SnapshotBuilder().alloc(0x1000, 8).oom(3 << 30).alloc(0x2000, 8)
    made.snapshot_event(1024).oom(512)
    snap = mr.open(build.dump(made.build()))
    found = marks(snap, snap.replay(0)).found
    assert [(one.kind, one.text, one.bytes, one.moment, one.end) for one in found] == [
        ("oom", "out of memory: 3.0 GiB failed", 3 << 30, 2, None),
        ("oom", "out of memory: 512 B failed", 512, 5, None),
        ("snapshot", "snapshot", 1024, 4, None),
    ]


def test_mark_has_no_number_that_a_browser_would_round() -> None:
    made = SnapshotBuilder().oom((1 << 53) - 1).oom(1 << 53).snapshot_event(1 << 60)
    snap = mr.open(build.dump(made.build()))
    assert [one.bytes for one in marks(snap, snap.replay(0)).found] == [(1 << 53) - 1, None, None]


def test_range_has_only_its_marks() -> None:
    made = SnapshotBuilder().oom(1).alloc(0x1000, 8).oom(512)
    snap = mr.open(build.dump(made.build()), start=1)
    assert [one.moment for one in marks(snap, snap.replay(0)).found] == [2]


def test_number_of_marks_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    made = SnapshotBuilder().oom(1).oom(2).oom(3)
    snap = mr.open(build.dump(made.build()))
    found = marks(snap, snap.replay(0))
    assert [one.moment for one in found.found] == [1, 2]
    assert found.notes == ("device 0: the first 2 failed requests are marked; 1 more aren't",)
    assert found.notes[0] in page_data(snap)[0].notes


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_steps_match_the_command(path: Path) -> None:
    snap = mr.open(path)
    try:
        devices = steps_report(snap).devices
    except NothingToTellError:
        devices = ()
    known = {one.device: one for one in devices}
    for device in snap.devices:
        replay = snap.replay(device)
        mine = [
            (one.text, one.moment, one.end)
            for one in marks(snap, replay).found
            if one.kind == "step"
        ]
        found = known.get(device)
        if found is None or found.step_source is None or found.step_source.found_by == "whole":
            assert mine == []
            continue
        first = replay.first_event
        assert mine == [
            (
                f"step {one.number:,} ({one.name})" if one.name else f"step {one.number:,}",
                one.first_event - first,
                one.last_event - first + 1,
            )
            for one in found.steps
        ]


def test_step_names_are_escaped() -> None:
    made = SnapshotBuilder()
    for step in range(3):
        made.annotation(f"ProfilerStep#{step}\x1b", "START")
        made.alloc(0x1000 * (step + 1), 8).annotation(f"ProfilerStep#{step}\x1b", "END")
    snap = mr.open(build.dump(made.build()))
    assert [one.text for one in marks(snap, snap.replay(0)).found] == [
        f"step {step + 1} (ProfilerStep#{step}\\x1b)" for step in range(3)
    ]
