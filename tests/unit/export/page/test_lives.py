"""Tests of export/page/lives.py: the allocations of a page match the oracle and the measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import memreplay as mr
from memreplay.export.page.lives import Lives, lives
from memreplay.snapshot.model import MeasureName
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.compare import stack_of
from tests.conftest import SNAPSHOTS
from tests.strategies import traces

ENDS: dict[MeasureName, tuple[str, str]] = {
    "requested": ("end", "requested"),
    "held": ("let_go", "requested"),
    "active": ("end", "block"),
    "allocated": ("let_go", "block"),
}


def found(snap: mr.Snapshot, device: int) -> Lives:
    return lives(snap, snap.replay(device))


def usage(those: Lives, measure: MeasureName, events: int) -> list[int]:
    """Return the bytes after each event, as a sum of differences."""
    end, n_bytes = (getattr(those, name) for name in ENDS[measure])
    begin, end, n_bytes = map(np.asarray, (those.begin, end, n_bytes))
    changes = np.zeros(events + 2, dtype=np.int64)
    np.add.at(changes, begin + 1, n_bytes)
    np.add.at(changes, np.maximum(end, begin) + 1, -n_bytes)
    return [int(one) for one in np.cumsum(changes)[1 : events + 1]]


def check(snap: mr.Snapshot) -> None:
    for device in snap.devices:
        replay = snap.replay(device)
        those = found(snap, device)
        rows = {len(column) for column in those}
        assert (len(those), rows) == (9, {replay.allocations + replay.carried_blocks})
        assert np.all(np.diff(np.asarray(those.begin)) >= 0)
        for measure in ENDS:
            want = np.asarray(replay.measure(measure).native.usage()).tolist()
            assert usage(those, measure, replay.events) == want, measure


@given(traces())
def test_allocations_add_up_to_every_measure(snapshot: Any) -> None:
    check(mr.open(build.dump(snapshot)))


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_allocations_of_real_snapshots_add_up(path: Path) -> None:
    check(mr.open(path))


@given(traces())
def test_allocations_match_the_oracle(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in snap.devices:
        those, events = found(snap, device), snap.replay(device).events
        none = snap.code.stacks
        rows = zip(those.begin, those.end, those.requested, those.stack, those.address, strict=True)
        mine = [
            (
                int(begin),
                int(end),
                int(size),
                stack_of(snap, int(stack) if stack < none else 0),
                int(address),
            )
            for begin, end, size, stack, address in rows
        ]
        assert all(
            one != (none if begin < 0 else none + 1)
            for begin, one in zip(those.begin, those.stack, strict=True)
        )
        theirs = [
            (
                one.alloc_index,
                events if one.free_index is None else one.free_index,
                one.size,
                one.frames,
                one.addr,
            )
            for one in oracle.replay(snapshot, device).lifetimes
        ]
        assert sorted(mine) == sorted(theirs)


def test_each_allocation_has_its_stack_pool_and_stream() -> None:
    made = SnapshotBuilder()
    made.alloc(0x1000, 100, frames=[("step", "/site/torch/optim/adam.py", 3)], stream=5)
    made.alloc(0x2000, 700, pool_id=(0, 2))
    made.event("free_requested", 0x1000, 100)
    made.event("free_completed", 0x1000, 100)
    made.segment(0x7000, 1 << 21, stream=9, blocks=[made.block(0x7000, 512, 300)])
    snap = mr.open(build.dump(made.build()))
    those = found(snap, 0)
    assert those.begin.tolist() == [-1, 0, 1]
    assert those.end.tolist() == [4, 3, 4]
    assert those.let_go.tolist() == [4, 2, 4]
    assert those.requested.tolist() == [300, 100, 700]
    replay = snap.replay(0)
    assert [replay.classes("stream").keys()[one] for one in those.stream] == [9, 5, 0]
    pools = [replay.pool_of(replay.classes("pool").keys()[one]) for one in those.pool]
    assert pools == [(0, 0), None, (0, 2)]
    assert those.address.tolist() == [0x7000, 0x1000, 0x2000]
    # The page has the empty stack and one other.
    assert those.stack.tolist() == [3, 1, 2]
