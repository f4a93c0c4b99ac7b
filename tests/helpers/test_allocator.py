"""Tests of the allocator model: each rule with hand-made examples, then invariants."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from tests import oracle
from tests.allocator import CHECKPOINT_STACK, Device, Machine
from tests.allocator_blocks import (
    DEFAULT_POOL,
    MIB,
    MIN_BLOCK,
    SMALL_SIZE,
    Block,
    Settings,
    round_size,
    segment_size,
)
from tests.allocator_strategies import SETTINGS, Recording, record, recordings
from tests.allocator_truth import MEASURES
from tests.build import Entry

EXPANDABLE = Settings(expandable_segments=True)


def device_of(**settings: Any) -> Device:
    return Machine(Settings(**settings)).devices[0]


def get(block: Block | None) -> Block:
    assert block is not None
    return block


def events(device: Device) -> list[tuple[str, int, int]]:
    """Return (action, address above the base in MiB, size) of all events."""
    found = [one.event for one in device.history]
    return [(e["action"], (e.get("addr", 0) - device.base) // MIB, e["size"]) for e in found]


def actions(device: Device) -> list[str]:
    return [action for action, _, _ in events(device)]


def layout(device: Device) -> list[list[tuple[int, str]]]:
    """Return (size, state) of each segment's blocks."""
    return [
        [(block["size"], block["state"]) for block in segment["blocks"]]
        for segment in device.segments()
    ]


LIVE, FREE, PENDING = "active_allocated", "inactive", "active_pending_free"


# --- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "size, rounded",
    [(1, 512), (512, 512), (513, 1024), (MIB - 1, MIB), (MIB, MIB), (MIB + 1, MIB + 512)],
)
def test_sizes_are_rounded_to_512(size: int, rounded: int) -> None:
    assert round_size(size, Settings()) == rounded


@pytest.mark.parametrize(
    "size, rounded",
    [
        (1200, 1536),  # not above 512 * 4, so rounded to 512
        (2049, 2560),  # 4 steps between 2048 and 4096
        (2048, 2048),
        (MIB + 1, MIB + MIB // 4),
        (MIB + MIB // 4, MIB + MIB // 4),
        (2 * MIB - 1, 2 * MIB),
        (3 * MIB, 3 * MIB),
        (3 * MIB + 1, 3 * MIB + 512),  # no divisions between 2 and 4 MiB
        (5 * MIB, 6 * MIB),  # 2 steps between 4 and 8 MiB
        (9 * MIB, 9 * MIB),  # 1 division has no effect
        (9 * MIB + 1, 9 * MIB + 512),
    ],
)
def test_sizes_are_rounded_to_divisions_of_a_power_of_two(size: int, rounded: int) -> None:
    settings = Settings(roundup_power2_divisions=(4, 0, 2, 1) + (0,) * 12)
    assert round_size(size, settings) == rounded


def test_segment_size_depends_on_the_request() -> None:
    sizes = (512, MIB, MIB + 512, 10 * MIB - 512, 10 * MIB, 10 * MIB + 512)
    assert [segment_size(size) // MIB for size in sizes] == [2, 2, 20, 20, 10, 12]


# --- splitting, fitting, merging -----------------------------------------------------------------


def test_small_blocks_are_always_split() -> None:
    device = device_of()
    device.malloc(1000)
    device.malloc(MIB)
    assert events(device) == [
        ("segment_alloc", 0, 2 * MIB),
        ("alloc", 0, 1000),
        ("alloc", 0, MIB),
    ]
    assert layout(device) == [[(1024, LIVE), (MIB, LIVE), (MIB - 1024, FREE)]]


def test_large_blocks_are_not_split_for_a_remainder_of_up_to_one_mib() -> None:
    device = device_of()
    device.malloc(19 * MIB)
    device.malloc(19 * MIB - 512)
    assert layout(device) == [
        [(20 * MIB, LIVE)],
        [(19 * MIB - 512, LIVE), (MIB + 512, FREE)],
    ]


def test_best_fit_prefers_the_lowest_address() -> None:
    device = device_of()
    blocks = [get(device.malloc(size * MIB)) for size in (30, 12, 40, 12)]
    for block in (blocks[0], blocks[3], blocks[1], blocks[2]):
        device.free(block)
    assert get(device.malloc(11 * MIB + 1)).addr == blocks[1].addr
    assert get(device.malloc(12 * MIB)).addr == blocks[3].addr
    assert get(device.malloc(12 * MIB)).addr == blocks[0].addr
    assert actions(device).count("segment_alloc") == 4


def test_free_neighbours_are_merged() -> None:
    device = device_of()
    a, b, c = [get(device.malloc(size)) for size in (512, 1024, 2048)]
    device.free(a)
    device.free(c)
    rest = 2 * MIB - 1536
    assert layout(device) == [[(512, FREE), (1024, LIVE), (rest, FREE)]]
    device.free(b)
    assert layout(device) == [[(2 * MIB, FREE)]]


def test_each_stream_and_size_class_has_its_own_segments() -> None:
    device = device_of()
    device.free(get(device.malloc(512)))
    device.malloc(512, stream=7)
    device.malloc(2 * MIB)
    found = [(s["stream"], s["segment_type"], s["total_size"] // MIB) for s in device.segments()]
    assert found == [(0, "small", 2), (7, "small", 2), (0, "large", 20)]


def test_blocks_of_small_segments_never_serve_large_requests() -> None:
    device = device_of()
    device.free(get(device.malloc(512)))
    device.malloc(MIB + 1)
    assert [s["total_size"] // MIB for s in device.segments()] == [2, 20]


# --- releasing memory ----------------------------------------------------------------------------


def test_empty_cache_frees_unsplit_segments_large_ones_first() -> None:
    device = device_of()
    a, b, c, d = [get(device.malloc(size)) for size in (512, 12 * MIB, 11 * MIB, 3 * MIB)]
    get(device.malloc(3 * MIB))  # splits the segment of d
    for block in (a, b, c, d):
        device.free(block)
    before = len(device.history)
    device.empty_cache()
    assert events(device)[before:] == [
        ("segment_free", 2, 12 * MIB),
        ("segment_free", 14, 12 * MIB),
        ("segment_free", 0, 2 * MIB),
    ]
    assert layout(device) == [[(3 * MIB, FREE), (3 * MIB, LIVE), (14 * MIB, FREE)]]


def test_addresses_are_reused() -> None:
    device = device_of()
    device.free(get(device.malloc(12 * MIB)))
    device.empty_cache()
    assert get(device.malloc(30 * MIB)).addr == device.base


def test_free_completes_only_after_the_recorded_stream_finishes() -> None:
    device = device_of()
    block = get(device.malloc(600))
    device.record_stream(block, 7)
    device.free(block)
    assert actions(device)[1:] == ["alloc", "free_requested"]
    assert layout(device) == [[(1024, PENDING), (2 * MIB - 1024, FREE)]]
    device.malloc(512)
    assert "free_completed" not in actions(device)
    device.finish_stream(7)
    device.malloc(512)  # first completes the finished free, then reuses its block
    assert events(device)[-2:] == [("free_completed", 0, 600), ("alloc", 0, 512)]
    assert get(device.malloc(512)).addr == block.addr + 512


def test_free_waits_for_both_other_streams_but_not_for_its_own() -> None:
    device = device_of()
    a, b = get(device.malloc(512)), get(device.malloc(512))
    device.record_stream(a, 0)
    device.record_stream(b, 7)
    device.record_stream(b, 8)
    device.free(a)
    device.free(b)
    device.finish_stream(7)
    device.malloc(MIB)
    assert actions(device).count("free_completed") == 1
    device.empty_cache()  # waits for all streams
    assert actions(device).count("free_completed") == 2


# --- limits --------------------------------------------------------------------------------------


def test_oversize_blocks_serve_only_oversize_requests() -> None:
    device = device_of(max_split_size=20 * MIB)
    big = get(device.malloc(60 * MIB))
    device.free(big)
    device.malloc(12 * MIB)  # not taken from the 60 MiB
    device.malloc(40 * MIB)  # would waste 20 MiB of the block
    assert layout(device) == [[(60 * MIB, FREE)], [(12 * MIB, LIVE)], [(40 * MIB, LIVE)]]
    assert get(device.malloc(40 * MIB + 512)) is not None
    assert layout(device)[0] == [(60 * MIB, LIVE)]  # not split


def test_free_segment_as_large_as_the_limit_is_oversize() -> None:
    device = device_of(max_split_size=20 * MIB)
    device.free(get(device.malloc(5 * MIB)))
    device.malloc(5 * MIB)
    assert layout(device) == [[(20 * MIB, FREE)], [(5 * MIB, LIVE), (15 * MIB, FREE)]]


def test_out_of_memory_empties_the_cache_and_retries() -> None:
    device = device_of(capacity=50 * MIB)
    device.free(get(device.malloc(30 * MIB)))
    device.malloc(15 * MIB, stream=7)
    assert events(device)[-2:] == [("segment_alloc", 30, 16 * MIB), ("alloc", 30, 15 * MIB)]
    device.malloc(40 * MIB)
    assert actions(device)[-2:] == ["segment_free", "oom"]
    oom = device.history[-1].event
    assert (oom["size"], oom["device_free"], "addr" in oom) == (40 * MIB, 34 * MIB, False)
    device.malloc(34 * MIB)
    assert actions(device)[-2:] == ["segment_alloc", "alloc"]


def test_split_limit_frees_only_what_is_needed() -> None:
    device = device_of(max_split_size=20 * MIB, capacity=100 * MIB)
    blocks = [get(device.malloc(size * MIB)) for size in (22, 30, 44)]
    for block in blocks:
        device.free(block)
    # No single block suffices, so this frees the largest first, until their sum does.
    device.malloc(60 * MIB)
    assert events(device)[-4:] == [
        ("segment_free", 52, 44 * MIB),
        ("segment_free", 22, 30 * MIB),
        ("segment_alloc", 22, 60 * MIB),
        ("alloc", 22, 60 * MIB),
    ]


# --- expandable segments -------------------------------------------------------------------------


def test_expandable_segments_grow_by_handles() -> None:
    device = Machine(EXPANDABLE).devices[0]
    device.malloc(5 * MIB)
    device.malloc(14 * MIB + MIB // 2)  # leaves 512 KiB, which is split off even in a large pool
    device.malloc(10 * MIB)  # takes those 512 KiB and 9.5 MiB of a new handle
    assert events(device) == [
        ("segment_map", 0, 20 * MIB),
        ("alloc", 0, 5 * MIB),
        ("alloc", 5, 14 * MIB + MIB // 2),
        ("segment_map", 20, 20 * MIB),
        ("alloc", 19, 10 * MIB),
    ]
    assert layout(device) == [
        [
            *((5 * MIB, LIVE), (14 * MIB + MIB // 2, LIVE), (10 * MIB, LIVE)),
            (10 * MIB + MIB // 2, FREE),
        ]
    ]
    assert [s["is_expandable"] for s in device.segments()] == [True]


def test_growable_free_block_is_chosen_by_its_full_size() -> None:
    device = Machine(EXPANDABLE).devices[0]
    blocks = [get(device.malloc(size * MIB)) for size in (10, 15, 10)]
    device.free(blocks[1])
    device.malloc(4 * MIB)  # not taken from the 5 MiB at the end
    assert events(device)[-1] == ("alloc", 10, 4 * MIB)
    device.malloc(11 * MIB)
    device.malloc(4 * MIB)
    assert events(device)[-1] == ("alloc", 35, 4 * MIB)


def test_small_requests_have_their_own_expandable_segment() -> None:
    device = Machine(EXPANDABLE).devices[0]
    for size in (MIB, MIB, 512, 2 * MIB):
        device.malloc(size)
    sizes = [(action, size) for action, _, size in events(device)]
    assert [size for action, size in sizes if action == "segment_map"] == [2 * MIB] * 2 + [20 * MIB]


def test_middle_of_an_expandable_segment_is_unmapped_and_mapped_again() -> None:
    device = Machine(EXPANDABLE).devices[0]
    a, b, c = [get(device.malloc(size * MIB)) for size in (30, 50, 20)]
    device.free(b)  # frees 30 to 80 MiB, where the handles from 40 to 80 are whole
    device.empty_cache()
    assert events(device)[-1] == ("segment_unmap", 40, 40 * MIB)
    assert layout(device) == [[(30 * MIB, LIVE), (10 * MIB, FREE)], [(20 * MIB, LIVE)]]
    device.malloc(45 * MIB)  # placed at the lowest address: 10 MiB are free, 35 must be mapped
    assert events(device)[-2:] == [("segment_map", 40, 40 * MIB), ("alloc", 30, 45 * MIB)]
    assert layout(device) == [
        [(30 * MIB, LIVE), (45 * MIB, LIVE), (5 * MIB, FREE), (20 * MIB, LIVE)]
    ]
    device.free(a)
    device.free(c)
    # The 30 MiB don't suffice, so this uses 25 MiB at the end, and the space after them.
    device.malloc(31 * MIB)
    assert events(device)[-2:] == [("segment_map", 100, 20 * MIB), ("alloc", 75, 31 * MIB)]


def test_fully_free_expandable_segment_is_released() -> None:
    device = Machine(EXPANDABLE).devices[0]
    device.free(get(device.malloc(30 * MIB)))
    device.empty_cache()
    assert events(device)[-1] == ("segment_unmap", 0, 40 * MIB)
    assert device.all_areas() == []


def test_expandable_segment_runs_out_of_memory() -> None:
    device = device_of(expandable_segments=True, capacity=50 * MIB)
    device.malloc(15 * MIB)
    assert device.malloc(30 * MIB) is None  # 5 MiB are free, 40 must be mapped, 30 are left
    assert actions(device)[-1] == "oom"
    assert get(device.malloc(25 * MIB)).addr == device.base + 15 * MIB


# --- private pools -------------------------------------------------------------------------------


def test_private_pools_keep_memory_until_released() -> None:
    device = device_of()
    device.begin_pool((1, 0))
    block = get(device.malloc(512))
    device.end_pool()
    device.free(block)
    device.malloc(512)
    found = [(s["segment_pool_id"], s["active_size"]) for s in device.segments()]
    assert found == [((1, 0), 0), (DEFAULT_POOL, 512)]
    device.empty_cache()
    assert len(device.segments()) == 2
    device.release_pool((1, 0))
    device.empty_cache()
    assert [s["segment_pool_id"] for s in device.segments()] == [DEFAULT_POOL]
    pools = [one.event["pool_id"] for one in device.history]
    assert pools == [(1, 0)] * 4 + [DEFAULT_POOL] * 2 + [(1, 0)]


def test_frees_of_blocks_used_by_other_streams_wait_for_the_end_of_a_capture() -> None:
    device = device_of()
    a, b = get(device.malloc(512)), get(device.malloc(512))
    device.record_stream(a, 7)
    device.begin_pool((1, 0))
    device.record_stream(b, 8)
    device.free(a)
    device.free(b)
    device.finish_stream(7)
    device.malloc(512)
    assert "free_completed" not in actions(device)
    assert layout(device)[0][:2] == [(512, PENDING), (512, PENDING)]
    device.end_pool()
    device.malloc(512)  # uses within the capture need no event, but the other streams must finish
    completed = [one for one in device.history if one.event["action"] == "free_completed"]
    assert [one.event["addr"] for one in completed] == [b.addr]


def test_checkpoint_restores_whole_blocks_at_the_same_addresses() -> None:
    device = device_of()
    device.begin_pool((1, 0))
    device.malloc(600)
    gone = get(device.malloc(2000))
    device.malloc(19 * MIB + 5)
    device.end_pool()
    device.free(gone)
    saved = device.checkpoint((1, 0))
    before = layout(device)
    first = len(device.history)
    created = device.set_checkpoint((1, 0), saved)
    assert layout(device) == before
    rest = 2 * MIB - 1024
    assert [(a, s) for a, _, s in events(device)[first:]] == [
        ("free_requested", 600),
        ("free_completed", 600),
        ("free_requested", 19 * MIB + 5),
        ("free_completed", 19 * MIB + 5),
        ("alloc", 1024),
        ("alloc", rest),
        ("free_requested", rest),
        ("free_completed", rest),
        ("alloc", 20 * MIB),
    ]
    assert [block.requested for block in created] == [1024, 20 * MIB]
    names = {one.event["frames"][0]["name"] for one in device.history[first:]}
    assert names == {CHECKPOINT_STACK[0][0]}


# --- measures and snapshots ----------------------------------------------------------------------


def test_requesting_a_free_reduces_held_before_requested_bytes() -> None:
    machine = Machine()
    device = machine.devices[0]
    block = get(device.malloc(600))
    device.record_stream(block, 7)
    device.free(block)
    device.empty_cache()
    _, (truth,) = machine.dump()
    assert {name: truth.series(name) for name in MEASURES} == {
        "requested": [0, 600, 600, 0, 0],
        "held": [0, 600, 0, 0, 0],
        "active": [0, 1024, 1024, 0, 0],
        "allocated": [0, 1024, 0, 0, 0],
        "reserved": [2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB, 0],
    }


def test_memory_older_than_the_recording_is_carried_over() -> None:
    machine = Machine()
    device = machine.devices[0]
    stack = (("f", "f.py", 1),)
    kept = get(device.malloc(600, stack=stack))
    pending = get(device.malloc(100, stream=9, stack=stack))
    device.record_stream(pending, 7)
    device.free(pending)
    machine.begin_recording()
    device.malloc(700, stack=stack)
    snapshot, (truth,) = machine.dump(event_pools=False)
    assert [event["action"] for event in snapshot["device_traces"][0]] == ["alloc"]
    assert "pool_id" not in snapshot["device_traces"][0][0]
    frames = [[len(b["frames"]) for b in s["blocks"]] for s in snapshot["segments"]]
    assert frames == [[0, 1, 0], [0, 0]]
    assert [truth.start_of(name) for name in MEASURES] == [700, 600, 1536, 1024, 4 * MIB]
    assert [truth.start_of(name, stream=9) for name in MEASURES] == [100, 0, 512, 0, 2 * MIB]
    assert truth.carried[kept.addr] == (kept.addr, 1024, 600, DEFAULT_POOL, 0, False)
    assert truth.carried[pending.addr] == (pending.addr, 512, 100, DEFAULT_POOL, 9, True)
    assert truth.blocks == {0: (kept.addr + 1024, 1024, 700, DEFAULT_POOL, 0, False)}


def test_ring_buffer_keeps_the_last_events() -> None:
    whole, cut = record(5), record(5, max_entries=30)
    traces = whole.snapshot["device_traces"][0], cut.snapshot["device_traces"][0]
    assert len(traces[1]) == 30
    assert traces[1] == traces[0][-30:]
    assert whole.snapshot["segments"] == cut.snapshot["segments"]
    for name in MEASURES:
        assert whole.truths[0].series(name)[-30:] == cut.truths[0].series(name)


def test_snapshot_event_has_the_active_bytes() -> None:
    machine = Machine()
    machine.devices[0].malloc(600)
    machine.dump()
    snapshot, (truth,) = machine.dump()  # a dump's own event only appears in the next dump
    last = snapshot["device_traces"][0][-1]
    assert (last["action"], last["addr"], last["size"]) == ("snapshot", 0, 1024)
    assert truth.series("active") == [0, 1024, 1024]


def test_settings_are_spelled_as_in_pytorch() -> None:
    divided = Settings(roundup_power2_divisions=tuple(range(16)), max_split_size=64 * MIB)
    written = divided.to_dict()
    assert list(written["roundup_power2_divisions"].items())[:3] == [("1", 0), ("2", 1), ("4", 2)]
    assert written["roundup_power2_divisions"]["32768"] == 15
    assert written["max_split_size"] == 64 * MIB
    assert Settings().to_dict()["max_split_size"] == -1


def test_same_seed_gives_the_same_recording() -> None:
    first, second = [record(7, settings="crowded", devices=2, late=20) for _ in range(2)]
    assert first == second
    assert first != record(8, settings="crowded", devices=2, late=20)


# --- invariants ----------------------------------------------------------------------------------


@given(recordings())
def test_blocks_tile_segments_and_add_up_to_the_measures(recording: Recording) -> None:
    for device, truth in enumerate(recording.truths):
        segments = [s for s in recording.snapshot["segments"] if s["device"] == device]
        end = 0
        for segment in segments:
            assert segment["address"] >= end
            end = segment["address"]
            for block in segment["blocks"]:
                assert block["address"] == end
                assert block["size"] % MIN_BLOCK == 0 < block["size"]
                end += block["size"]
            assert end == segment["address"] + segment["total_size"]
            free = [block["state"] == "inactive" for block in segment["blocks"]]
            assert not any(a and b for a, b in pairwise(free))
        final = {name: [truth.start_of(name), *truth.series(name)][-1] for name in MEASURES}
        assert final["reserved"] == sum(s["total_size"] for s in segments)
        assert final["active"] == sum(s["active_size"] for s in segments)
        assert final["allocated"] == sum(s["allocated_size"] for s in segments)
        assert final["requested"] == sum(s["requested_size"] for s in segments)
        assert min(final.values()) >= 0
        assert final["reserved"] <= recording.settings.capacity


@given(recordings())
def test_true_measures_keep_their_order_and_add_up(recording: Recording) -> None:
    """At every event held <= requested <= active <= reserved, and the parts by pool and stream add
    up to the total.
    """
    for truth in recording.truths:
        series = {name: [truth.start_of(name), *truth.series(name)] for name in MEASURES}
        for requested, held, active, allocated, reserved in zip(*series.values(), strict=True):
            assert 0 <= held <= requested <= active <= reserved
            assert held <= allocated <= active
        for name in MEASURES:
            pools = [truth.series(name, pool=pool) for pool in truth.pools()]
            streams = [truth.series(name, stream=stream) for stream in truth.streams()]
            if truth.recorded:
                assert [sum(column) for column in zip(*pools, strict=True)] == series[name][1:]
                assert [sum(column) for column in zip(*streams, strict=True)] == series[name][1:]


@given(recordings())
def test_oracle_for_requested_bytes_matches_the_truth(recording: Recording) -> None:
    for device, truth in enumerate(recording.truths):
        got = oracle.replay(recording.snapshot, device)
        assert got.carried_over_bytes == truth.start_of("requested")
        assert got.usage == truth.series("requested")
        assert got.reconciliation_bytes == 0
        assert (got.double_allocs, got.unmatched_frees, got.size_mismatches) == (0, 0, 0)
        carried = {one.addr: one.size for one in got.lifetimes if one.alloc_index == -1}
        assert carried == {b.addr: b.requested for b in truth.carried.values()}


@given(recordings())
def test_snapshot_events_match_the_truth(recording: Recording) -> None:
    for truth in recording.truths:
        for one, active in zip(truth.recorded, truth.series("active"), strict=True):
            if one.event["action"] == "snapshot":
                assert one.event["size"] == active


@given(recordings())
def test_block_sizes_follow_the_rules_of_the_replay(recording: Recording) -> None:
    """docs/allocator.md: sizes are exact if blocks are always split; otherwise there is up to 1 MiB
    of slack.
    """
    settings = recording.settings
    for truth in recording.truths:
        for index, block in truth.blocks.items():
            frames = truth.recorded[index].event.get("frames", [])
            if frames and frames[0]["name"] == CHECKPOINT_STACK[0][0]:
                assert block.size == block.requested
                continue
            size = round_size(block.requested, settings)
            if size <= SMALL_SIZE or settings.expandable_segments:
                assert block.size == size
            elif settings.max_split_size is None or size < settings.max_split_size:
                assert size <= block.size <= size + SMALL_SIZE
            else:
                assert size <= block.size < size + 20 * MIB


@given(recordings())
def test_free_blocks_of_large_segments_are_larger_than_1_mib(recording: Recording) -> None:
    for segment in recording.snapshot["segments"]:
        if segment["segment_type"] == "large" and not segment["is_expandable"]:
            for block in segment["blocks"]:
                assert block["state"] != "inactive" or block["size"] > MIB


@pytest.mark.parametrize("settings", ["default", "crowded", "roundup by interval"])
def test_gap_after_a_large_block_bounds_its_size(settings: str) -> None:
    """docs/allocator.md: a gap of up to 1 MiB is slack; the free part of a gap is one block."""
    slack = 0
    for seed in range(40):
        recording = record(seed, settings=settings, steps=120, private_pools=False)
        for segment in recording.snapshot["segments"]:
            if segment["segment_type"] == "small":
                continue
            blocks = segment["blocks"]
            end = segment["address"] + segment["total_size"]
            for at, block in enumerate(blocks):
                if block["state"] == "inactive":
                    continue
                rounded = round_size(block["requested_size"], recording.settings)
                behind = [b["address"] for b in blocks[at + 1 :] if b["state"] != "inactive"]
                gap = min([*behind, end]) - block["address"] - rounded
                if gap <= MIB:
                    assert block["size"] == rounded + gap
                    slack += gap > 0
                else:
                    assert blocks[at + 1]["state"] == "inactive"
                    assert rounded <= block["size"] <= rounded + MIB
    assert slack


@pytest.mark.parametrize("settings", SETTINGS)
def test_programs_cover_every_operation(settings: str) -> None:
    """The programs of several seeds together have every kind of event, pending frees at both ends,
    slack, checkpoints and holes.
    """
    seen: set[str] = set()
    for seed in range(60):
        recording = record(seed, settings=settings, steps=200, late=60 * (seed % 2))
        (truth,) = recording.truths
        for event in recording.snapshot["device_traces"][0]:
            seen.add(event["action"])
            if is_checkpoint(event):
                seen.add("checkpoint")
        if any(block.pending for block in truth.carried.values()):
            seen.add("pending at the start")
        if any(b["state"] == PENDING for s in recording.snapshot["segments"] for b in s["blocks"]):
            seen.add("pending at the end")
        for block in truth.blocks.values():
            if block.size > round_size(block.requested, recording.settings):
                seen.add("slack")
            if block.pool != DEFAULT_POOL:
                seen.add("private pool")
    expected = {"alloc", "free_requested", "free_completed", "snapshot", "checkpoint"}
    expected |= {"pending at the start", "pending at the end", "private pool"}
    if recording.settings.expandable_segments:
        expected |= {"segment_map", "segment_unmap"}
    else:
        expected |= {"segment_alloc", "segment_free", "slack"}
    if "crowded" in settings:
        expected.add("oom")
    assert expected - seen == set()


def is_checkpoint(event: Entry) -> bool:
    return any(frame["name"] == CHECKPOINT_STACK[0][0] for frame in event.get("frames", ()))
