"""held: bytes held from alloc to free_requested, number by number."""

from __future__ import annotations

import pytest

import memreplay._core as _core
from memreplay.engine.replay import _measures
from tests.build import SnapshotBuilder
from tests.unit.engine.replay.measured import A, B, C, column, holding

NONE = _core.ABSENT_ID


def held(builder: SnapshotBuilder) -> list[int]:
    measure = holding(builder).measure()
    return [measure.start_bytes, *column(measure.usage())]


def counts(builder: SnapshotBuilder) -> tuple[int, int, int, int]:
    """requests, unrequested, unmatched, pending"""
    found = holding(builder)
    return found.requests, found.unrequested, found.unmatched, found.pending


def test_memory_is_held_until_the_request_not_the_completion() -> None:
    b = SnapshotBuilder().alloc(A, 10).free_requested(A, 10).alloc(B, 3).free_completed(A, 10)
    assert held(b) == [0, 10, 0, 3, 3]
    assert counts(b) == (1, 0, 0, 0)
    assert column(holding(b).measure().ends()) == [1, NONE, NONE, NONE]


def test_completion_without_a_request_ends_the_holding() -> None:
    b = SnapshotBuilder().alloc(A, 10).free_completed(A, 10)
    assert held(b) == [0, 10, 0]
    assert counts(b) == (0, 1, 0, 0)


def test_request_that_never_completes_is_pending() -> None:
    b = SnapshotBuilder().alloc(A, 10).free_requested(A, 10).free_requested(B, 5)
    assert held(b.finish_segments([(0, B, 5)])) == [5, 15, 5, 0]
    assert counts(b) == (2, 0, 0, 2)


def test_requests_for_unknown_blocks_are_counted() -> None:
    b = SnapshotBuilder().free_requested(A, 1).alloc(A, 10).free(A, 10).free_requested(A, 10)
    assert held(b) == [0, 0, 10, 0, 0, 0]
    assert counts(b) == (3, 0, 2, 0)


def test_second_alloc_ends_the_first() -> None:
    b = SnapshotBuilder().alloc(A, 10).alloc(A, 4).alloc(A, 1).free(A, 1)
    assert held(b) == [0, 10, 4, 1, 0, 0]
    assert counts(b) == (1, 0, 0, 0)


def test_second_alloc_may_come_during_a_pending_free() -> None:
    b = SnapshotBuilder().alloc(A, 10).free_requested(A, 10).alloc(A, 4).free(A, 4)
    assert held(b) == [0, 10, 0, 4, 0, 0]


def test_alloc_over_a_carried_over_block_ends_it() -> None:
    b = SnapshotBuilder().free_requested(A, 9).alloc(A, 4).finish_segments()
    assert held(b) == [0, 0, 4]
    assert counts(b) == (1, 0, 1, 0)


def test_carried_over_block_is_held_until_its_free_is_requested() -> None:
    b = SnapshotBuilder().free_requested(A, 5).alloc(B, 1).free_completed(A, 5)
    assert held(b.finish_segments([(0, C, 30)])) == [35, 30, 31, 31]


def test_blocks_pending_at_the_start_are_not_held() -> None:
    b = SnapshotBuilder().free_completed(A, 5).free(B, 2).finish_segments()
    b.segment(C, 512, blocks=[b.block(C, 512, 7, "active_pending_free")])
    b.segment(C + 512, 512, blocks=[b.block(C + 512, 512, 8, "active_awaiting_free")])
    assert held(b) == [2, 2, 0, 0]
    assert column(holding(b).measure().carried_ends()) == [
        _measures.NEVER,
        1,
        *[_measures.NEVER] * 2,
    ]


def test_completions_count_if_requests_are_not_recorded() -> None:
    b = SnapshotBuilder().free_completed(A, 5).alloc(B, 1).free_completed(B, 1)
    assert held(b) == [5, 0, 1, 0]
    assert counts(b) == (0, 2, 0, 0)


def test_live_sets_contain_the_held_allocations() -> None:
    b = SnapshotBuilder().alloc(A, 10).free_requested(A, 10).free_completed(B, 5)
    measure = holding(b).measure()
    assert [[column(c) for c in measure.live(event)] for event in (-1, 0, 1)] == [
        [[], []],
        [[0], []],
        [[], []],
    ]
    assert measure.carried_held(-1) == 0


@pytest.mark.parametrize(
    "first, want", [(0, [0, 10, 0, 0]), (1, [10, 0, 0]), (2, [0, 0]), (3, [0])]
)
def test_ranges_take_earlier_requests_into_account(first: int, want: list[int]) -> None:
    b = SnapshotBuilder().alloc(A, 10).free_requested(A, 10).free_completed(A, 10)
    measure = holding(b.finish_segments(), start=first).measure()
    assert [measure.start_bytes, *column(measure.usage())] == want


def test_ranges_take_later_requests_into_account() -> None:
    b = SnapshotBuilder().alloc(A, 10).free_requested(B, 5).free_completed(B, 5)
    b.segment(C, 512, blocks=[b.block(C, 512, 7, "active_pending_free")]).free_requested(C, 7)
    measure = holding(b, stop=1).measure()
    assert [measure.start_bytes, *column(measure.usage())] == [12, 22]


def test_trace_without_events_holds_its_blocks() -> None:
    b = SnapshotBuilder()
    b.segment(A, 1024, blocks=[b.block(A, 512, 9), b.block(B, 512, 5, "active_pending_free")])
    assert held(b) == [9]
    assert counts(b) == (0, 0, 0, 0)


def test_devices_are_separate() -> None:
    b = SnapshotBuilder(2).alloc(A, 1, 0).alloc(A, 2, 1).free_requested(A, 1, 0)
    found = [column(holding(b, device=device).measure().usage()) for device in (0, 1)]
    assert found == [[1, 0], [2]]
