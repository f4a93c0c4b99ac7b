"""replay: replays of small traces match numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
import memreplay._core as _core
from memreplay.engine.replay import _timeline
from tests import build
from tests.build import FrameSpec, SnapshotBuilder
from tests.compare import assert_like_oracle

A, B, C = 4096, 8192, 2**63 + 512
NONE = _core.ABSENT_ID
requested = _timeline.requested_measure
F: list[FrameSpec] = [("f", "a.py", 1)]
G: list[FrameSpec] = [("g", "b.py", 2)]


def replay(builder: SnapshotBuilder, device: int = 0) -> _timeline.Replay:
    snapshot = builder.build()
    return assert_like_oracle(build.dump(snapshot), snapshot).replay(device).native


def column(values: Any) -> list[int]:
    return memoryview(values).tolist()


def test_allocs_add_and_frees_subtract_bytes() -> None:
    r = replay(SnapshotBuilder().alloc(A, 10).alloc(B, 20).free_completed(A, 10))
    assert column(requested(r).usage()) == [10, 30, 20]
    assert column(r.match()) == [2, NONE, 0]
    assert (r.peak_bytes, r.peak_event, r.final_bytes) == (30, 1, 20)
    assert (r.carried_bytes, r.carried_blocks, r.allocs) == (0, 0, 2)


def test_requested_free_releases_nothing() -> None:
    r = replay(SnapshotBuilder().alloc(A, 10).free_requested(A, 10))
    assert column(requested(r).usage()) == [10, 10]
    assert column(r.match()) == [NONE, NONE]


def test_first_of_equal_peaks_wins() -> None:
    r = replay(SnapshotBuilder().alloc(A, 10).free_completed(A, 10).alloc(A, 10))
    assert (r.peak_bytes, r.peak_event) == (10, 0)


def test_peak_may_be_at_the_start() -> None:
    builder = SnapshotBuilder().free_completed(A, 100).alloc(A, 60)
    r = replay(builder)
    assert (r.carried_bytes, r.peak_bytes, r.peak_event, r.final_bytes) == (100, 100, -1, 60)
    assert column(requested(r).usage()) == [0, 60]


def test_carried_over_memory_has_two_parts() -> None:
    builder = SnapshotBuilder().free_completed(B, 7).alloc(A, 1).free_completed(C, 5)
    builder.finish_segments([(0, 2**40, 300), (0, 2**41, 20)])
    r = replay(builder)
    assert r.carried_bytes == 7 + 5 + 320
    assert column(r.carried("size")) == [7, 5, 300, 20]
    assert column(r.carried("address")) == [B, C, 2**40, 2**41]
    assert column(r.carried("end")) == [0, 2, NONE, NONE]
    assert column(r.carried("block")) == [NONE, NONE, 1, 2]
    assert [requested(r).carried_held(e) for e in (-1, 0, 1, 2)] == [332, 325, 325, 320]
    assert r.segment_requested_bytes == r.final_bytes == 321


def test_block_allocated_in_the_trace_is_not_carried_over() -> None:
    builder = SnapshotBuilder().alloc(A, 10).free_completed(A, 10)
    builder.segment(A, 512, blocks=[builder.block(A, 512, 10)])
    r = replay(builder)
    assert (r.carried_bytes, r.final_bytes, r.segment_requested_bytes) == (0, 0, 10)


def test_second_alloc_replaces_the_first() -> None:
    builder = SnapshotBuilder().alloc(A, 10).alloc(A, 4).alloc(A, 3).free_completed(A, 3)
    r = replay(builder)
    assert column(requested(r).usage()) == [10, 4, 3, 0]
    assert column(r.match()) == [1, 2, 3, 2]
    assert (r.double_allocs, r.size_mismatches, r.unmatched_frees) == (2, 0, 0)


def test_second_free_is_unmatched() -> None:
    builder = SnapshotBuilder().alloc(A, 10).free_completed(A, 10).free_completed(A, 10)
    r = replay(builder)
    assert column(requested(r).usage()) == [10, 0, 0]
    assert column(r.match()) == [1, 0, NONE]
    assert (r.unmatched_frees, r.carried_bytes) == (1, 0)


def test_second_free_of_a_carried_over_block_is_unmatched() -> None:
    r = replay(SnapshotBuilder().free_completed(A, 10).free_completed(A, 10))
    assert (r.unmatched_frees, r.carried_bytes) == (1, 10)
    assert column(requested(r).usage()) == [0, 0]


def test_free_with_a_wrong_size_releases_the_allocation() -> None:
    r = replay(SnapshotBuilder().alloc(A, 10).free_completed(A, 99))
    assert column(requested(r).usage()) == [10, 0]
    assert r.size_mismatches == 1


def test_other_actions_have_no_effect() -> None:
    builder = SnapshotBuilder().segment_alloc(A, 1000).oom(5, 6).snapshot_event(7)
    builder.segment_map(A, 10).segment_unmap(A, 10).event("new thing", A, 5).segment_free(A, 1000)
    r = replay(builder)
    assert column(requested(r).usage()) == [0] * 7
    assert column(r.match()) == [NONE] * 7
    assert r.unknown_actions == 1


def test_devices_are_independent() -> None:
    builder = SnapshotBuilder(2).alloc(A, 10, 0).free_completed(A, 4, 1).alloc(A, 6, 1)
    builder.segment(B, 512, 1, blocks=[builder.block(B, 512, 1)])
    assert column(requested(replay(builder, 0)).usage()) == [10]
    second = replay(builder, 1)
    assert (second.first_row, second.events, second.carried_bytes) == (1, 2, 5)
    assert column(requested(second).usage()) == [1, 7]


def test_device_with_segments_only_carries_its_blocks_over() -> None:
    builder = SnapshotBuilder(0)
    builder.segment(A, 1024, 3, blocks=[builder.block(A, 512, 9), builder.block(B, 512, 5)])
    r = replay(builder, 3)
    assert (r.events, r.carried_bytes, r.peak_event) == (0, 14, -1)
    assert column(requested(r).usage()) == column(r.match()) == []
    assert [column(c) for c in requested(r).live(-1)] == [[], [0, 1]]


def test_live_sets_follow_the_events() -> None:
    builder = SnapshotBuilder().alloc(A, 1).free_completed(B, 2).alloc(C, 4).free_completed(A, 1)
    r = replay(builder)
    live = [[column(c) for c in requested(r).live(event)] for event in range(-1, 4)]
    assert live == [[[], [0]], [[0], [0]], [[0], []], [[0, 2], []], [[2], []]]
    for event in (-2, 4, 2**70):
        with pytest.raises(IndexError):
            requested(r).live(event)
        with pytest.raises(IndexError):
            requested(r).carried_held(event)


def test_free_has_an_allocator_only_if_frees_carry_alloc_stacks() -> None:
    same = SnapshotBuilder().alloc(A, 1, frames=F).free_completed(A, 1, frames=F)
    same.free_completed(B, 5, frames=G)
    other = SnapshotBuilder().alloc(A, 1, frames=F).free_completed(A, 1, frames=G)
    other.free_completed(B, 5, frames=G)
    alone = SnapshotBuilder().free_completed(B, 5, frames=G)
    assert [column(replay(b).carried("stack"))[0] > 0 for b in (same, other, alone)] == [
        True,
        False,
        False,
    ]


def test_sums_beyond_64_bits_are_refused() -> None:
    huge = 2**61 + 5
    allocs, frees, blocks = SnapshotBuilder(), SnapshotBuilder(), SnapshotBuilder()
    for i in range(3):
        allocs.alloc(A + i, huge)
        frees.free_completed(A + i, huge)
    held = [blocks.block(A + i, 5, huge) for i in range(3)]
    blocks.segment(A, 5, blocks=held, requested_size=0)
    for builder in (allocs, frees, blocks):
        snap = mr.open(build.dump(builder.build()))
        with pytest.raises(mr.SnapshotError, match="sizes of device 0 add up to more") as caught:
            snap.replay(0)
        assert caught.value.offset is None


def test_largest_sums_that_fit_are_exact() -> None:
    most = 2**62 - 1
    builder = SnapshotBuilder().alloc(A, most).free_completed(B, most).free_completed(A, most)
    r = replay(builder)
    assert (r.peak_bytes, r.peak_event, r.final_bytes) == (2 * most, 0, 0)
