"""lives: sums over lifetimes, for all allocations and for a single class."""

from __future__ import annotations

import pytest

import memreplay._core as _core
from memreplay.engine.query import _groups
from memreplay.engine.replay import _measures, _timeline
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import MIB, A, B, C, active, blocks, column, replay

NONE = _core.ABSENT_ID
requested = _timeline.requested_measure


def made() -> SnapshotBuilder:
    """Carry over B, which is freed halfway, and C, which stays; allocate, overwrite and free A."""
    b = SnapshotBuilder().alloc(A, 10).free_completed(B, 50).alloc(A, 3).free_completed(A, 3)
    return b.segment(C, 512, blocks=[b.block(C, 512, 7)])


def test_sums_match_those_worked_out_by_hand() -> None:
    measure = requested(replay(made()))
    assert measure.start_bytes == 57
    assert column(measure.usage()) == [67, 17, 10, 7]
    assert column(measure.ends()) == [2, NONE, 3, 2]
    assert column(measure.weights()) == [10, 50, 3, 3]
    assert column(measure.counted()) == [1, 0, 1, 0]
    assert column(measure.carried_ends()) == [1, NONE]
    assert column(measure.carried_weights()) == [50, 7]
    assert [measure.carried_held(event) for event in range(-1, 4)] == [57, 57, 7, 7, 7]


def test_live_sets_match_those_worked_out_by_hand() -> None:
    measure = requested(replay(made()))
    live = [[column(c) for c in measure.live(event)] for event in range(-1, 4)]
    assert live == [[[], [0, 1]], [[0], [0, 1]], [[0], [1]], [[2], [1]], [[], [1]]]


def test_other_bytes_count_from_the_start() -> None:
    measure = active(blocks(made()))
    assert column(measure.weights()) == [512, 0, 512, 0]
    assert column(measure.carried_weights()) == [512, 512]
    assert [measure.start_bytes, *column(measure.usage())] == [1024, 1536, 1024, 1024, 512]


def test_measure_of_one_class_or_member_has_only_its_blocks() -> None:
    b = SnapshotBuilder()
    for i, (in_pool, on_stream) in enumerate((((0, 0), 0), ((1, 0), 0), ((1, 0), 7), ((0, 0), 7))):
        b.alloc(A + i * 512, 1 << i, pool_id=in_pool, stream=on_stream)
    b.free_completed(A + 1024, 4, pool_id=(1, 0), stream=7).free_completed(B, 16, stream=7)
    b.segment(B, 2 * MIB, stream=7, pool=(1, 0))
    found = blocks(b)
    tables = found.reserved.replay.tables
    pools, streams = _measures.Classes(found, "pool"), _measures.Classes(found, "stream")
    keys = pools.keys()
    pool = [key is not None and tables.pool(key) == (1, 0) for key in keys].index(True)
    stream = streams.keys().index(7)
    measure = pools.keep(requested(found.reserved.replay), pool)
    assert [measure.start_bytes, *column(measure.usage())] == [16, 16, 18, 22, 22, 18, 2]
    assert column(measure.counted()) == [0, 1, 1, 0, 0, 0]
    measure = streams.keep(measure, stream)
    assert [measure.start_bytes, *column(measure.usage())] == [16, 16, 16, 20, 20, 16, 0]
    assert [column(c) for c in measure.live(3)] == [[2], [0]]
    assert [column(c) for c in measure.live(5)] == [[], []]
    nothing = streams.keep(measure, 99)
    assert [nothing.start_bytes, *column(nothing.usage())] == [0] * 7
    assert column(nothing.carried_ends()) == [_measures.NEVER]


def test_empty_trace_has_no_allocations() -> None:
    measure = requested(replay(SnapshotBuilder().segment(A, 512)))
    assert (measure.start_bytes, column(measure.usage()), column(measure.counted())) == (0, [], [])
    assert [column(c) for c in measure.live(-1)] == [[], []]


def test_impossible_sums_wrap() -> None:
    """Four blocks have 2^62 bytes each, in synthetic segments."""
    b = SnapshotBuilder()
    for i in range(4):
        b.segment_alloc(i << 62, 2**62 - 1).alloc(i << 62, 1)
    measure = active(blocks(b, max_split=0))
    ranks = bytes(measure.replay.tables.n_strings)
    want = 4 * (2**62 - 1) - 2**64
    assert column(measure.usage())[-1] == want
    for by in ("stack", "function"):
        keys = _groups.stack_keys(measure.replay, by, ranks, ranks)
        assert keys.sums(measure.live(7), measure, 0)[1:] == (1, want, 4)


def test_missing_moments_are_refused() -> None:
    measure = requested(replay(made()))
    for event in (-2, 4, 2**70):
        with pytest.raises(IndexError):
            measure.live(event)
        with pytest.raises(IndexError):
            measure.carried_held(event)
