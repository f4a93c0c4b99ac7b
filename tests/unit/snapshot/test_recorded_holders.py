"""Notes on who held the memory are validated."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins

import memreplay as mr
from memreplay.snapshot.recorded_holders import HeldBy, RecordedHolders, recorded_holders
from tests import build

LIST = HeldBy(
    kind="variable",
    name="losses[…]",
    function="train",
    file="/home/ana/train.py",
    line=12,
    type_name="list",
    bytes=3 << 20,
    count=6,
    autograd_bytes=2 << 20,
    autograd_count=4,
    nodes=("GeluBackward0",),
    small_views=0,
)
NOTES = RecordedHolders(
    groups=(LIST,),
    other_groups=2,
    other_bytes=1 << 20,
    total_bytes=4 << 20,
    seconds=0.5,
    complete=True,
)


def noted(held: Any) -> mr.Snapshot:
    made = build.SnapshotBuilder().alloc(4096, 512).build()
    made["memreplay"] = {"version": 1, "recorder": "record", "holders": held}
    return mr.open(build.dump(made))


def test_notes_are_read() -> None:
    assert recorded_holders(noted(to_builtins(NOTES))) == NOTES


def test_snapshots_without_notes_have_none() -> None:
    assert (
        recorded_holders(mr.open(build.dump(build.SnapshotBuilder().alloc(1, 2).build()))) is None
    )


@pytest.mark.parametrize(
    "change",
    [
        {"total_bytes": 5 << 20},
        {"other_bytes": -1},
        {"groups": [{}]},
        {"groups": [to_builtins(LIST) | {"kind": "friend"}]},
        {"groups": [to_builtins(LIST) | {"bytes": "3"}]},
        {"groups": [to_builtins(LIST) | {"name": "x" * 5000}]},
        {"groups": None},
        {"complete": 1},
    ],
)
def test_invalid_notes_are_ignored(change: dict[str, Any]) -> None:
    snap = noted(to_builtins(NOTES) | change)
    assert recorded_holders(snap) is None
    assert "by holder" not in str(mr.report(snap))


@pytest.mark.parametrize("held", [None, 5, "x", [], [1]])
def test_other_values_are_ignored(held: Any) -> None:
    assert recorded_holders(noted(held)) is None
