"""Tests of the oracle itself: each rule on numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests import build, oracle, strategies
from tests.build import SnapshotBuilder

A, B, C, D = 0x1000, 0x2000, 0x3000, 0x4000
MODEL = ("forward", "model.py", 10)
TRAIN = ("train", "train.py", 20)


def test_peak_of_a_simple_trace_is_right() -> None:
    b = SnapshotBuilder().alloc(A, 100).alloc(B, 50).free(A, 100).alloc(C, 30)
    got = oracle.replay(b.finish_segments().build(), 0)
    assert got.usage == [100, 150, 150, 50, 80]  # a free is two events
    assert (got.peak_bytes, got.event_index, got.end_bytes) == (150, 1, 80)
    assert (got.carried_over_bytes, got.reconciliation_bytes) == (0, 0)
    assert [(one.alloc_index, one.free_index, one.addr, one.size) for one in got.lifetimes] == [
        (0, 3, A, 100),
        (1, None, B, 50),
        (4, None, C, 30),
    ]


def test_earliest_of_equal_peaks_is_reported_even_at_the_start() -> None:
    twice = SnapshotBuilder().alloc(A, 9).free(A, 9).alloc(A, 9)
    assert oracle.replay(twice.build(), 0).event_index == 0
    again = SnapshotBuilder().free_completed(A, 9).alloc(A, 9)
    got = oracle.replay(again.build(), 0)
    assert (got.peak_bytes, got.event_index) == (9, -1)


def test_carried_over_memory_is_freed_in_the_trace_or_kept() -> None:
    b = SnapshotBuilder().alloc(A, 10).free(B, 200).alloc(B, 5)
    b.finish_segments(extra_live=[(0, C, 7)])
    got = oracle.replay(b.build(), 0)
    assert got.carried_over_bytes == 207
    assert got.usage == [217, 217, 17, 22]
    assert (got.peak_bytes, got.event_index, got.end_bytes) == (217, 0, 22)
    assert got.reconciliation_bytes == 0
    assert [(one.alloc_index, one.free_index, one.addr) for one in got.lifetimes] == [
        (0, None, A),
        (3, None, B),
        (-1, 2, B),
        (-1, None, C),
    ]
    assert [one.addr for one in got.live_at(-1)] == [B, C]
    assert [one.addr for one in got.live_at(1)] == [A, B, C]
    assert [one.addr for one in got.live_at(3)] == [A, B, C]
    assert [one.addr for one in got.live_at(2)] == [A, C]


def test_double_alloc_frees_the_older_allocation() -> None:
    got = oracle.replay(SnapshotBuilder().alloc(A, 10).alloc(A, 4).free(A, 4).build(), 0)
    assert got.usage == [10, 4, 4, 0]
    assert (got.double_allocs, got.unmatched_frees) == (1, 0)
    assert [(one.alloc_index, one.free_index) for one in got.lifetimes] == [(0, 1), (1, 3)]


def test_unmatched_frees_and_size_mismatches_are_counted() -> None:
    b = SnapshotBuilder().alloc(A, 10).free_completed(A, 12).free_completed(A, 10)
    b.free_completed(B, 3).free_completed(B, 3)
    got = oracle.replay(b.build(), 0)
    assert got.usage == [13, 3, 3, 0, 0]  # B was carried over; A is freed with its own size
    assert (got.unmatched_frees, got.size_mismatches, got.carried_over_bytes) == (2, 1, 3)


def test_other_actions_have_no_effect() -> None:
    b = SnapshotBuilder().segment_alloc(A, 100).alloc(A, 1).free_requested(A, 1)
    b.segment_map(B, 1).segment_unmap(B, 1).segment_free(C, 1).oom(5, device_free=3)
    b.snapshot_event(1).event("user_defined").event("empty_cache").event("defragment", A, 1)
    got = oracle.replay(b.build(), 0)
    assert got.usage == [0] + [1] * 10
    assert got.unknown_actions == 1


def test_blocks_waiting_to_be_freed_count_but_inactive_ones_do_not() -> None:
    b = SnapshotBuilder()
    states = ("active_allocated", "active_pending_free", "active_awaiting_free", "inactive")
    b.segment(A, 2048, blocks=[b.block(A + 512 * i, 512, 10, s) for i, s in enumerate(states)])
    got = oracle.replay(b.build(), 0)
    assert (got.carried_over_bytes, got.end_bytes, got.reconciliation_bytes) == (30, 30, 0)
    assert (got.peak_bytes, got.event_index, got.usage) == (30, -1, [])


def test_difference_between_trace_and_segments_is_reported() -> None:
    b = SnapshotBuilder().alloc(A, 100).free(B, 1).alloc(B, 7)
    b.segment(B, 512, blocks=[b.block(B, 512, 9)])  # B is in the trace, so it isn't carried over
    # C appears twice; the first one is used.
    b.segment(C, 512, blocks=[b.block(C, 512, 2), b.block(C, 512, 3)])
    got = oracle.replay(b.build(), 0)
    assert got.carried_over_bytes == 1 + 2
    assert got.end_bytes == 100 + 7 + 2
    assert got.reconciliation_bytes == 109 - (9 + 2 + 3)


def test_blocks_of_pytorch_2_0_are_read_from_their_history() -> None:
    b = SnapshotBuilder().free_completed(A + 512, 40)
    blocks = [
        b.legacy_block(512, 100, "inactive", [(A, 100, [MODEL])]),
        b.legacy_block(512, 40, history=[(A + 512, 40, [MODEL])]),  # seen in the trace
        b.legacy_block(1024, None, history=[(A + 1024, 900, [MODEL]), (A + 1024, 1, [TRAIN])]),
        b.legacy_block(512, None),
    ]
    b.segment(A, 2560, blocks=blocks, legacy=True)
    got = oracle.replay(b.build(), 0)
    assert [(one.addr, one.size, one.frames) for one in got.lifetimes] == [
        (A + 512, 40, ()),
        (A + 1024, 900, (MODEL,)),
        (A + 2048, 512, ()),
    ]
    assert got.reconciliation_bytes == -40


def test_frees_give_carried_over_blocks_a_stack_only_if_they_carry_alloc_stacks() -> None:
    def frames_of_c(*free_frames: build.FrameSpec) -> oracle.Stack:
        b = SnapshotBuilder().alloc(A, 1, frames=[MODEL]).alloc(B, 1, frames=[TRAIN])
        b.free(A, 1, frames=[MODEL]).free(B, 1, frames=free_frames).free(C, 1, frames=[TRAIN])
        return oracle.replay(b.build(), 0).lifetimes[-1].frames

    assert frames_of_c(TRAIN) == (TRAIN,)
    assert frames_of_c(TRAIN, MODEL) == ()
    unpaired = SnapshotBuilder().free(C, 1, frames=[TRAIN])
    assert oracle.replay(unpaired.build(), 0).lifetimes[-1].frames == ()


def test_live_set_is_grouped_by_stack() -> None:
    b = SnapshotBuilder().alloc(A, 1, frames=[MODEL, TRAIN]).alloc(B, 2, frames=[MODEL, TRAIN])
    b.alloc(C, 4, frames=[TRAIN]).alloc(D, 8)
    got = oracle.replay(b.build(), 0)
    assert got.groups_by_stack(3) == {(MODEL, TRAIN): (3, 2), (TRAIN,): (4, 1), (): (8, 1)}
    assert got.groups_by_stack(-1) == {}


def test_devices_are_independent() -> None:
    b = SnapshotBuilder(devices=3).alloc(A, 1, device=0).alloc(A, 10, device=2)
    b.segment(A, 512, device=5, blocks=[b.block(A, 512, 3)])
    snapshot = b.build()
    assert oracle.devices(snapshot) == [0, 2, 5]
    assert [oracle.replay(snapshot, d).peak_bytes for d in (0, 1, 2, 5)] == [1, 0, 10, 3]
    assert oracle.replay(snapshot["segments"], 5).peak_bytes == 3  # a bare list of segments


def test_columns_have_every_field() -> None:
    b = SnapshotBuilder(devices=2, start_us=1000)
    b.alloc(A, 7, 1, frames=[MODEL], stream=2**63, pool_id=(3, 0), compile_context="N/A")
    b.oom(9, user_metadata="x").drop("time_us", "stream")
    oom = ("oom", 0, 9, 0, None, (), None, "x", None)
    alloc = ("alloc", A, 7, 2**63, 1000, (MODEL,), "N/A", None, (3, 0))
    assert oracle.columns(b.build()) == [[oom], [alloc]]


def test_signed_addresses_are_read_as_unsigned() -> None:
    high = 2**63 + A
    b = SnapshotBuilder().alloc(high, 5, stream=2**64 - 1).finish_segments()
    snapshot = oracle.load(build.dump_cpp(b.build()))
    assert snapshot["device_traces"][0][0]["addr"] < 0
    assert oracle.columns(snapshot) == oracle.columns(b.build())
    assert oracle.replay(snapshot, 0) == oracle.replay(b.build(), 0)


@given(strategies.traces())
def test_live_sets_and_groups_add_up_to_usage(snapshot: build.Snapshot) -> None:
    for device in range(len(snapshot["device_traces"]) + 2):
        got = oracle.replay(snapshot, device)
        for index, usage in enumerate([got.carried_over_bytes, *got.usage], start=-1):
            assert sum(one.size for one in got.live_at(index)) == usage
            groups = got.groups_by_stack(index)
            assert sum(size for size, _ in groups.values()) == usage
            assert usage <= got.peak_bytes
        assert sum(one.size for one in got.live_at(got.event_index)) == got.peak_bytes


@given(strategies.traces(segments="agreeing"))
def test_consistent_segments_do_not_differ_from_the_trace(snapshot: build.Snapshot) -> None:
    for device in oracle.devices(snapshot):
        assert oracle.replay(snapshot, device).reconciliation_bytes == 0


# --------------------------------------------------------------------------------------------------
# Real files: table of exact requested peaks
# --------------------------------------------------------------------------------------------------

# file name -> (peak, whether it is at the start)
TABLE = {
    "Wedsonlin_*__medium_1024_training_*": (24_207_167_496, False),
    "Wedsonlin_*__medium_512_inference_*": (1_949_343_744, False),
    "kkaitlyn111_*__memory_ctx128_fullstep.pickle": (54_802_667_524, False),
    "kkaitlyn111_*__memory_ctx256_fullstep_.pickle": (54_824_462_340, False),
    "kkaitlyn111_*__memory_ctx512_forward_mixed.pickle": (39_860_763_648, False),
    "a0kuma__adam.pickle": (217_763_364, False),
    "LfieLike_*__my_snapshot.pickle": (16_380_108_176, True),
    "Yiyi-*__1.3b_snapshot.pickle": (5_692_346_376, True),
    "Yiyi-*__oom_snapshot.pickle": (11_840_159_744, True),
}


def read_corpus(corpus: Path, pattern: str) -> Any:
    (path,) = corpus.glob(pattern)
    return oracle.load(path.read_bytes())


@pytest.mark.parametrize("pattern", TABLE)
def test_peak_of_a_real_file_is_exact(corpus: Path, pattern: str) -> None:
    snapshot = read_corpus(corpus, pattern)
    (device,) = oracle.devices(snapshot)
    got = oracle.replay(snapshot, device)
    assert (got.peak_bytes, got.event_index == -1) == TABLE[pattern]
    assert (got.double_allocs, got.unmatched_frees, got.unknown_actions) == (0, 0, 0)
    assert got.reconciliation_bytes == 0


@pytest.mark.parametrize("pattern", ["albi2_*.pickle", "Felixburton7_*.pickle"])
def test_peak_of_a_real_file_without_events_is_the_sum_of_its_segments(
    corpus: Path, pattern: str
) -> None:
    snapshot = read_corpus(corpus, pattern)
    for device in oracle.devices(snapshot):
        got = oracle.replay(snapshot, device)
        segments = [s for s in snapshot["segments"] if s["device"] == device]
        assert got.event_index == -1
        assert got.peak_bytes == sum(s["requested_size"] for s in segments) > 0
