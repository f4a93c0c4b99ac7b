"""Tests of the oracle for held and reserved bytes: hand-made examples, and comparison with the
allocator model.
"""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given

from tests import oracle_measures, strategies
from tests.allocator_strategies import Recording, recordings
from tests.build import Snapshot, SnapshotBuilder

A, B, C, D = 0x1000, 0x2000, 0x3000, 0x4000


def held(builder: SnapshotBuilder) -> tuple[int, list[int], int]:
    got = oracle_measures.held(builder.build(), 0)
    return got.carried_over_bytes, got.usage, got.reconciliation_bytes


def reserved(builder: SnapshotBuilder) -> tuple[int, list[int], int]:
    got = oracle_measures.reserved(builder.build(), 0)
    return got.carried_over_bytes, got.usage, got.reconciliation_bytes


# --- held ----------------------------------------------------------------------------------------


def test_memory_is_held_until_its_free_is_requested() -> None:
    b = SnapshotBuilder().alloc(A, 100).free_requested(A, 100).alloc(B, 7).free_completed(A, 100)
    assert held(b.finish_segments()) == (0, [100, 0, 7, 7], 0)


def test_without_a_free_request_memory_is_held_until_the_free_completes() -> None:
    b = SnapshotBuilder().alloc(A, 100).free_completed(A, 100)
    assert held(b) == (0, [100, 0], 0)


def test_second_alloc_at_an_address_ends_the_holding_of_the_first() -> None:
    b = SnapshotBuilder().alloc(A, 100).alloc(A, 7).free(A, 7)
    assert held(b) == (0, [100, 7, 0, 0], 0)


def test_second_free_request_has_no_effect() -> None:
    b = SnapshotBuilder().alloc(A, 9).free_requested(A, 9).free_requested(A, 9)
    assert held(b.free_completed(A, 9).free_requested(A, 9)) == (0, [9, 0, 0, 0, 0], 0)


def test_carried_over_memory_is_held_until_its_free_is_requested() -> None:
    b = SnapshotBuilder().free_requested(A, 5).alloc(B, 1).free_completed(A, 5)
    b.finish_segments(extra_live=[(0, C, 30)])
    assert held(b) == (35, [30, 31, 31], 0)


def test_block_with_a_pending_free_at_the_start_is_not_held() -> None:
    b = SnapshotBuilder().free_completed(A, 5).free(B, 2).finish_segments()
    assert held(b) == (2, [2, 0, 0], 0)


def test_trace_without_free_requests_is_assumed_to_have_skipped_them() -> None:
    assert held(SnapshotBuilder().free_completed(A, 5)) == (5, [0], 0)


def test_block_pending_from_start_to_end_is_not_held() -> None:
    def of(state: str, builder: SnapshotBuilder) -> tuple[int, list[int], int]:
        return held(builder.segment(A, 512, blocks=[builder.block(A, 512, 10, state)]))

    assert of("active_allocated", SnapshotBuilder().alloc(B, 1).free(B, 1)) == (10, [11, 10, 10], 0)
    assert of("active_pending_free", SnapshotBuilder().alloc(B, 1)) == (0, [1], 1)
    assert of("active_awaiting_free", SnapshotBuilder()) == (0, [], 0)
    assert of("active_pending_free", SnapshotBuilder().free_requested(A, 10)) == (10, [0], 0)


# --- reserved ------------------------------------------------------------------------------------


def test_reserved_follows_the_segment_events() -> None:
    b = SnapshotBuilder().segment_alloc(A, 0x1000).segment_map(B, 0x500).segment_free(A, 0x1000)
    b.segment(B, 0x500).segment(C, 0x100)
    assert reserved(b) == (0x100, [0x1100, 0x1600, 0x600], 0)


def test_segment_whose_first_event_frees_it_was_reserved_at_the_start() -> None:
    b = SnapshotBuilder().segment_free(A, 0x1000).segment_alloc(A, 0x800)
    b.segment(A, 0x800)
    assert reserved(b) == (0x1000, [0, 0x800], 0)


def test_middle_of_a_range_is_unmapped_and_mapped_again() -> None:
    b = SnapshotBuilder().segment_unmap(B, 0x1000).segment_map(B, 0x1000)
    b.segment(A, 0x3000)
    assert reserved(b) == (0x3000, [0x2000, 0x3000], 0)


def test_unmap_reveals_memory_reserved_at_the_start() -> None:
    b = SnapshotBuilder().segment_map(B, 0x1000).segment_unmap(A, 0x3000)
    assert reserved(b) == (0x2000, [0x3000, 0], 0)


def test_difference_from_the_final_segments_is_reported() -> None:
    b = SnapshotBuilder().segment_alloc(A, 0x1000)
    assert reserved(b) == (0, [0x1000], 0x1000)


# --- against the model, and on random traces -----------------------------------------------------


@given(recordings())
def test_held_matches_the_truth(recording: Recording) -> None:
    for device, truth in enumerate(recording.truths):
        trace = recording.snapshot["device_traces"][device]
        # A trace without any free_requested looks as if its recorder had skipped them.
        known = any(event["action"] == "free_requested" for event in trace)
        if not known:
            assume(not any(block.pending for block in truth.carried.values()))
        got = oracle_measures.held(recording.snapshot, device)
        assert got.carried_over_bytes == truth.start_of("held")
        assert got.usage == truth.series("held")
        assert got.reconciliation_bytes == 0


@given(recordings())
def test_reserved_matches_the_truth(recording: Recording) -> None:
    for device, truth in enumerate(recording.truths):
        got = oracle_measures.reserved(recording.snapshot, device)
        assert got.carried_over_bytes == truth.start_of("reserved")
        assert got.usage == truth.series("reserved")
        assert got.reconciliation_bytes == 0


@given(strategies.traces())
def test_every_snapshot_has_a_result(snapshot: Snapshot) -> None:
    def check(got: Any, events: int) -> None:
        assert len(got.usage) == events
        assert [got.carried_over_bytes, *got.usage][-1] == got.end_bytes

    for device in range(len(snapshot["device_traces"]) + 1):
        events = len((snapshot["device_traces"] + [[]])[device])
        check(oracle_measures.held(snapshot, device), events)
        check(oracle_measures.reserved(snapshot, device), events)
