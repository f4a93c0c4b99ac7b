"""classes: sums of allocations and of segments, by pool and by stream."""

from __future__ import annotations

import pytest

from memreplay.engine.replay import _measures, _timeline
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import MIB, A, B, C, blocks, column

requested = _timeline.requested_measure


def made() -> SnapshotBuilder:
    """Give stream 0 a new segment, and stream 7 a segment without events. Free a segment of stream
    3, whose pool is unknown.
    """
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, 100).free_completed(B, 30, stream=7)
    b.alloc(A + 512, 5).alloc(A, 40).free_completed(A + 512, 5).segment_free(C, 20 * MIB, stream=3)
    b.alloc(B, 1, stream=7)
    b.segment(A, 2 * MIB, blocks=[b.block(A, 512, 40)])
    return b.segment(B, 2 * MIB, stream=7, pool=(0, 1), blocks=[b.block(B, 512, 1)])


def test_sums_by_stream_match_those_worked_out_by_hand() -> None:
    found = blocks(made())
    classes = _measures.Classes(found, "stream")
    assert (classes.by, classes.blocks) == ("stream", found)
    assert classes.keys() == [None, 0, 3, 7]
    assert column(classes.of_events()) == [1, 1, 0, 1, 1, 0, 2, 3]
    measure = requested(found.reserved.replay)
    # start, peak, peak's event, bytes and blocks after the event, final, blocks
    assert classes.sums(measure, 3) == [
        (0, 0, -1, 0, 0, 0, 0),
        (0, 105, 3, 105, 2, 40, 3),
        (0, 0, -1, 0, 0, 0, 0),
        (30, 30, -1, 0, 0, 1, 2),
    ]
    assert [row[3] for row in classes.sums(measure, -1)] == [0, 0, 0, 30]
    assert [row[3] for row in classes.sums(measure, 4)] == [0, 45, 0, 0]
    assert classes.reserved_sums(5) == [
        (0, 0, -1, 0, 0, 0, 0),
        (0, 2 * MIB, 0, 2 * MIB, 1, 2 * MIB, 1),
        (20 * MIB, 20 * MIB, -1, 20 * MIB, 1, 0, 1),
        (2 * MIB, 2 * MIB, -1, 2 * MIB, 1, 2 * MIB, 1),
    ]
    assert [row[3] for row in classes.reserved_sums(-1)] == [0, 0, 20 * MIB, 2 * MIB]
    assert [row[3] for row in classes.reserved_sums(7)] == [0, 2 * MIB, 0, 2 * MIB]


def test_sums_by_pool_match_those_worked_out_by_hand() -> None:
    found = blocks(made())
    classes = _measures.Classes(found, "pool")
    tables = found.reserved.replay.tables
    keys = classes.keys()
    names = [None if key is None else tables.pool(key) for key in keys]
    assert names == [None, (0, 0), (0, 1)]
    measure = requested(found.reserved.replay)
    assert [row[5] for row in classes.sums(measure, 0)] == [0, 40, 1]
    # The pool of the freed segment isn't recorded, so the segment counts for none.
    assert [row[0] for row in classes.reserved_sums(0)] == [20 * MIB, 0, 2 * MIB]
    assert [row[5] for row in classes.reserved_sums(0)] == [0, 2 * MIB, 2 * MIB]


def test_alloc_over_a_live_block_does_not_raise_the_peak() -> None:
    found = blocks(SnapshotBuilder().alloc(A, 100).alloc(A, 60).alloc(A, 90))
    (unknown, one) = _measures.Classes(found, "stream").sums(requested(found.reserved.replay), 2)
    assert unknown[6] == 0
    assert one == (0, 100, 0, 90, 1, 90, 3)


def test_streams_may_have_the_largest_number() -> None:
    found = blocks(SnapshotBuilder().alloc(A, 5, stream=2**64 - 1).alloc(B, 6, stream=2**32 - 1))
    classes = _measures.Classes(found, "stream")
    assert classes.keys() == [None, 2**64 - 1, 2**32 - 1]
    assert [row[5] for row in classes.sums(requested(found.reserved.replay), 1)] == [0, 5, 6]


def test_trace_without_events_has_one_empty_class() -> None:
    found = blocks(SnapshotBuilder())
    for by in ("pool", "stream"):
        classes = _measures.Classes(found, by)
        assert classes.keys() == [None]
        assert classes.sums(requested(found.reserved.replay), -1) == [(0, 0, -1, 0, 0, 0, 0)]
        assert classes.reserved_sums(-1) == [(0, 0, -1, 0, 0, 0, 0)]


def test_thousands_of_classes_have_the_right_sums() -> None:
    b = SnapshotBuilder(times=False)
    for i in range(3000):
        b.alloc(A + i * 512, i, stream=i * 7919, pool_id=(i % 1000, 1))
    found = blocks(b)
    measure = requested(found.reserved.replay)
    streams = _measures.Classes(found, "stream").sums(measure, 2999)
    assert [row[3] for row in streams] == [0, *range(3000)]
    pools = _measures.Classes(found, "pool").sums(measure, 2999)
    assert [row[3] for row in pools] == [0, *(3 * i + 3000 for i in range(1000))]


def test_invalid_arguments_are_refused() -> None:
    found = blocks(made())
    for by in ("", "pools", None):
        with pytest.raises(ValueError, match=f"^{by}$"):
            _measures.Classes(found, by)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _measures.Classes(found, 5)  # type: ignore[arg-type]
    classes = _measures.Classes(found, "pool")
    with pytest.raises(OverflowError):
        classes.keep(requested(found.reserved.replay), -1)
    with pytest.raises(OverflowError):
        classes.reserved_sums(2**63)
    with pytest.raises(OverflowError):
        classes.reserved_sums(0, [(classes, -1)])
    with pytest.raises(ValueError, match="one pool and one stream"):
        classes.reserved_sums(0, [(classes, 1)] * 3)
    with pytest.raises(ValueError, match="one pool and one stream"):
        found.reserved_of([(classes, 1)] * 3)
    other = _measures.Classes(blocks(made()), "pool")
    with pytest.raises(ValueError, match="another replay"):
        found.reserved_of([(other, 1)])
    with pytest.raises(ValueError, match="another replay"):
        classes.reserved_sums(0, [(other, 1)])
    with pytest.raises(ValueError, match="another replay"):
        classes.reserved_sums(0, [(None, 1)])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        classes.reserved_sums(0, [(found, 1)])  # type: ignore[list-item]
