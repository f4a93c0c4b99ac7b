"""reserve: segments at the start and after each event match those worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay._core import ABSENT_ID
from memreplay.engine.replay import _measures
from tests import build
from tests.build import SnapshotBuilder
from tests.strategies import traces
from tests.unit.engine.replay.measured import MIB, A, B, C, column, reserved

TOP = 2**64


def usage(builder: SnapshotBuilder, **bounds: Any) -> list[int]:
    found = reserved(builder, **bounds)
    return [found.start_bytes, *column(found.usage())]


def regions(found: _measures.Reserved) -> list[tuple[int, int]]:
    return [(start, size) for start, size, *_ in found.regions()]


def test_segments_count_from_their_alloc_to_their_free() -> None:
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, 5).segment_alloc(B, 20 * MIB)
    b.segment_free(A, 2 * MIB).segment(B, 20 * MIB)
    found = reserved(b)
    assert usage(b) == [0, 2 * MIB, 2 * MIB, 22 * MIB, 20 * MIB]
    assert (found.end_bytes, found.final_bytes, found.misfits, found.impossible_events) == (
        20 * MIB,
    ) * 2 + (
        0,
        0,
    )
    assert column(found.events()) == [0, 2, 3]
    assert found.regions() == []


def test_carried_over_segment_is_freed_or_stays() -> None:
    b = SnapshotBuilder().segment_free(A, 2 * MIB, stream=7, pool_id=(0, 1))
    b.segment(C, 20 * MIB, stream=3, segment_type="small", pool=(2, 0))
    found = reserved(b)
    assert usage(b) == [22 * MIB, 20 * MIB]
    # Pool ids are those of Tables.pool; the size of a freed segment shows that it is small.
    (freed, kept) = found.regions()
    assert freed[:3] + freed[4:] == (A, 2 * MIB, 7, True, False)
    assert kept[:3] + kept[4:] == (C, 20 * MIB, 3, True, False)
    pools = [found.replay.tables.pool(g[3]) for g in (freed, kept) if g[3] is not None]
    assert pools == [(0, 1), (2, 0)]


def test_address_may_be_used_again() -> None:
    b = SnapshotBuilder().segment_free(A, 2 * MIB).segment_alloc(A, 20 * MIB)
    b.segment_free(A, 20 * MIB).segment_alloc(A, 4 * MIB).segment(A, 4 * MIB)
    assert usage(b) == [2 * MIB, 0, 20 * MIB, 0, 4 * MIB]
    assert reserved(b).misfits == 0


def test_memory_may_be_unmapped_in_the_middle() -> None:
    b = SnapshotBuilder().segment_unmap(A + 4 * MIB, 2 * MIB).segment_map(A + 10 * MIB, 2 * MIB)
    b.segment(A, 4 * MIB, is_expandable=True)
    b.segment(A + 6 * MIB, 6 * MIB, is_expandable=True)
    found = reserved(b)
    assert usage(b) == [10 * MIB, 8 * MIB, 10 * MIB]
    # One mapped range at the start becomes two segments at the end.
    assert regions(found) == [(A, 10 * MIB)]
    assert found.regions()[0][5]
    assert found.misfits == 0


def test_mapped_ranges_of_two_streams_are_separate() -> None:
    b = SnapshotBuilder().segment(A, 2 * MIB, is_expandable=True, stream=1)
    b.segment(A + 2 * MIB, 2 * MIB, is_expandable=True, stream=2)
    assert regions(reserved(b)) == [(A, 2 * MIB), (A + 2 * MIB, 2 * MIB)]


def test_adjacent_segments_are_not_merged() -> None:
    b = SnapshotBuilder().segment(A, 2 * MIB).segment(A + 2 * MIB, 20 * MIB)
    assert regions(reserved(b)) == [(A, 2 * MIB), (A + 2 * MIB, 20 * MIB)]


def test_first_event_of_each_address_shows_the_start() -> None:
    """A free covers the addresses of two later segments, so each address's first event counts."""
    b = SnapshotBuilder().segment_free(A, 4 * MIB).segment_alloc(A, 2 * MIB)
    b.segment_alloc(A + 2 * MIB, 2 * MIB).segment(A, 2 * MIB).segment(A + 2 * MIB, 2 * MIB)
    assert usage(b) == [4 * MIB, 0, 2 * MIB, 4 * MIB]
    assert regions(reserved(b)) == [(A, 4 * MIB)]


def test_final_segments_may_differ() -> None:
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB).segment_free(B, MIB).segment(B, MIB)
    found = reserved(b)
    assert (found.end_bytes, found.final_bytes) == (2 * MIB, MIB)
    assert found.misfits == 3 * MIB


def test_impossible_events_are_counted_and_skipped() -> None:
    b = SnapshotBuilder().segment_alloc(A, 0).segment_map(TOP - MIB, MIB).segment_alloc(TOP - 1, 2)
    b.segment_alloc(TOP - 2 * MIB, MIB).segment(TOP - 2 * MIB, MIB).segment(TOP - 1, MIB)
    found = reserved(b)
    assert found.impossible_events == 3
    assert usage(b) == [0, 0, 0, 0, MIB]
    assert (found.final_bytes, found.misfits) == (MIB, 0)


def test_range_starts_with_the_live_segments() -> None:
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB).segment_free(B, 20 * MIB).alloc(A, 1)
    b.segment_free(A, 2 * MIB).segment_alloc(C, 20 * MIB).segment(C, 20 * MIB)
    whole = usage(b)
    assert whole == [20 * MIB, 22 * MIB, 2 * MIB, 2 * MIB, 0, 20 * MIB]
    for first in range(5):
        for last in range(first, 6):
            assert usage(b, start=first, stop=last) == whole[first : last + 1]


def test_trace_may_have_no_events_or_no_segments() -> None:
    b = SnapshotBuilder().segment(A, 2 * MIB)
    assert usage(b) == [2 * MIB]
    b = SnapshotBuilder().alloc(A, 5)
    found = reserved(b)
    assert (usage(b), found.regions(), column(found.events())) == ([0, 0], [], [])


def test_devices_are_separate() -> None:
    b = SnapshotBuilder(2).segment_alloc(A, MIB, 0).segment_free(A, 4 * MIB, 1)
    b.segment(A, MIB, 0).segment(B, 2 * MIB, 1)
    assert usage(b) == [0, MIB]
    found = reserved(b, 1)
    assert [found.start_bytes, *column(found.usage())] == [6 * MIB, 2 * MIB]
    assert found.misfits == 0


def test_many_cells_keep_their_order() -> None:
    """A thousand segments that all exist at the start are freed in an odd order."""
    b = SnapshotBuilder(times=False)
    for i in range(1000):
        b.segment_free(A + (i * 377 % 1000) * 2 * MIB, 2 * MIB)
    assert usage(b) == [(1000 - i) * 2 * MIB for i in range(1001)]
    assert regions(reserved(b)) == [(A + i * 2 * MIB, 2 * MIB) for i in range(1000)]


def unexplained(snapshot: build.Snapshot, device: int) -> tuple[int, int, int, int, int, int]:
    """Count final blocks and segments without events. Return the number of blocks, of segments, and
    the bytes of the blocks, each followed by the part that has a stack.
    """
    replay = mr.open(build.dump(snapshot)).replay(device)
    columns = (replay.carried(name) for name in ("stack", "block", "size"))
    blocks = [
        (bool(stack), size) for stack, row, size in zip(*columns, strict=True) if row != ABSENT_ID
    ]
    named = {
        event.get("addr")
        for event in dict(enumerate(snapshot["device_traces"])).get(device, ())
        if str(event.get("action")).startswith("segment_") and event.get("size", 0) > 0
    }
    segments = [
        bool(one.get("frames"))
        for one in snapshot["segments"]
        if one.get("device", 0) == device
        and not one.get("is_expandable")
        and one["address"] not in named
    ]
    recorded = [size for stack, size in blocks if stack]
    counts = len(blocks), len(recorded), len(segments), sum(segments)
    return *counts, sum(size for _, size in blocks), sum(recorded)


@given(traces(max_devices=2), st.integers(0, 1))
def test_memory_without_an_event_is_counted(snapshot: build.Snapshot, device: int) -> None:
    snap = mr.open(build.dump(snapshot))
    if device in snap.devices:
        assert snap.replay(device).reserved.unexplained() == unexplained(snapshot, device)


@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("event", [False, True])
@pytest.mark.parametrize("expandable", [False, True])
def test_only_unexpandable_segments_without_an_event_count(
    stack: bool, event: bool, expandable: bool
) -> None:
    made = SnapshotBuilder().alloc(64, 7)
    if event:
        made.segment_alloc(2**40, 2**21)
    frames = [{"name": "f", "filename": "a.py", "line": 1}] if stack else []
    value = made.segment(2**40, 2**21, is_expandable=expandable).build()
    value["segments"][-1]["frames"] = frames
    counts = not event and not expandable
    found = mr.open(build.dump(value)).replay(0).reserved.unexplained()
    assert found == unexplained(value, 0)
    assert found[2:4] == (counts, counts and stack)
