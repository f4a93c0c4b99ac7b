"""_measures, _timeline: constructors refuse wrong arguments, and columns outlive their owners."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import memreplay as mr
from memreplay.engine.replay import _measures, _timeline
from tests import build
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import MIB, NO_DIVISIONS, A, B, blocks, column, replay

requested = _timeline.requested_measure
RULES = (NO_DIVISIONS, -1, False)


def made() -> SnapshotBuilder:
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, 100).free(B, 30).alloc(A + 512, 5)
    return b.segment(A, 2 * MIB, blocks=[b.block(A, 512, 100), b.block(A + 512, 512, 5)])


WRONG: tuple[Any, ...] = (None, 5, "x", b"", int, Ellipsis)


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize(
    "make",
    [
        lambda x: _timeline.Replay(x, 0),
        requested,
        lambda x: _timeline.Measure.__new__(_timeline.Measure, x),  # type: ignore[call-arg]
        _measures.Holding,
        _measures.Reserved,
        lambda x: _measures.Blocks(x, *RULES),
        lambda x: _measures.Classes(x, "pool"),
        lambda x: blocks(made()).weigh(x),
        lambda x: _measures.Classes(blocks(made()), "pool").keep(x, 1),
        lambda x: _measures.Classes(blocks(made()), "pool").sums(x, 1),
    ],
)
def test_other_types_are_refused(make: Callable[[Any], object], wrong: Any) -> None:
    with pytest.raises(TypeError):
        make(wrong)


@pytest.mark.parametrize(
    "cls",
    [
        _timeline.Replay,
        _timeline.Measure,
        _measures.Holding,
        _measures.Reserved,
        _measures.Blocks,
        _measures.Classes,
    ],
)
def test_classes_cannot_be_created_without_arguments(cls: Any) -> None:
    with pytest.raises(TypeError):
        cls()
    with pytest.raises(TypeError):
        cls.__new__(cls)


def test_measures_cannot_be_instantiated() -> None:
    with pytest.raises(TypeError, match="use requested_measure"):
        _timeline.Measure(replay(made()))  # type: ignore[arg-type]


def test_measures_cannot_be_copied() -> None:
    found = blocks(made())
    for one in (found, found.reserved, found.reserved.replay, requested(found.reserved.replay)):
        with pytest.raises(TypeError):
            copy.copy(one)
        with pytest.raises(TypeError):
            pickle.dumps(one)


def test_measures_of_another_replay_are_refused() -> None:
    """Its columns have different lengths."""
    mine, other = blocks(made()), requested(replay(SnapshotBuilder().alloc(A, 1)))
    classes = _measures.Classes(mine, "stream")
    for use in (
        lambda: mine.weigh(other),
        lambda: classes.keep(other, 1),
        lambda: classes.sums(other, 0),
    ):
        with pytest.raises(ValueError, match="to another replay"):
            use()


def test_columns_outlive_their_owner() -> None:
    def columns() -> list[Any]:
        found = blocks(made())
        measure = _measures.Holding(found.reserved.replay).measure()
        weighed = found.weigh(measure)
        kept = _measures.Classes(found, "stream").keep(weighed, 1)
        usage = [kept.usage(), kept.ends(), kept.weights(), kept.counted(), kept.carried_ends()]
        more = [kept.carried_weights(), *kept.live(2), found.pools(), found.reserved.usage()]
        return [*usage, *more, found.reserved.events(), found.reserved.replay.match()]

    alive = columns()
    gc.collect()
    noise = [bytearray(200) for _ in range(5000)]
    assert [column(one) for one in alive] == [column(one) for one in columns()]
    del noise


def test_measure_outlives_its_weights() -> None:
    found = blocks(made())
    measure = found.weigh(_measures.Holding(found.reserved.replay).measure())
    del found
    gc.collect()
    assert column(measure.usage()) == [512, 1024, 512, 512, 1024]
    assert measure.start_bytes == 512


def test_replay_of_a_missing_device_is_empty() -> None:
    native = mr.open(build.dump(made().build())).native
    for device in (-1, 7, 2**31 - 1):
        empty = _timeline.Replay(native, device)
        assert (empty.events, empty.carried_blocks) == (0, 0)
        found = _measures.Blocks(_measures.Reserved(empty), *RULES)
        assert (found.proven, found.end_blocks, found.reserved.start_bytes) == (0, 0, 0)
    with pytest.raises(OverflowError):
        _timeline.Replay(native, 2**31)


def test_segment_bytes_are_summed_by_measure() -> None:
    b = SnapshotBuilder().alloc(A, 1)
    held = [b.block(A, 512, 1), b.block(A + 512, 1024, 600, "active_pending_free")]
    b.segment(A, 2 * MIB, blocks=[*held, b.block(A + 1536, 512, 0, "inactive")])
    b.segment(B, 512, device=1, blocks=[b.block(B, 512, 9)])
    native = replay(b)
    found = [native.segment_bytes(one) for one in ("requested", "held", "active", "allocated")]
    assert found == [601, 1, 1536, 512]


def test_snapshot_events_are_listed_with_their_bytes() -> None:
    b = SnapshotBuilder().alloc(A, 1).snapshot_event(512).alloc(B, 1).snapshot_event(1024)
    assert replay(b).snapshot_events() == [(1, 512), (3, 1024)]
    assert replay(made()).snapshot_events() == []


def test_times_are_a_column_or_none() -> None:
    b = SnapshotBuilder().alloc(A, 1, time_us=5).alloc(B, 1, time_us=7)
    times = replay(b).times()
    assert times is not None
    assert column(times) == [5, 7]
    assert replay(SnapshotBuilder(times=False).alloc(A, 1)).times() is None
