"""excerpt: a slice's events, the events before them, and the segments at its end."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.write._slicing import Excerpt, Stripped
from memreplay.export.snapshots.cutting import cut
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder
from tests.strategies import traces

A, B, C = 0x1000, 0x2000, 0x3000
F, G = [("f", "a.py", 1)], [("g", "a.py", 2)]
LEASTS = st.sampled_from([0, 1, 512, 513, 1_000, 2**20, 2**50])


def sliced(snap: mr.Snapshot, **options: Any) -> tuple[Any, Any]:
    """Return the slice, and the values that Python computes for it."""
    report, chunks = cut(snap, **options)
    return report, pickle.loads(b"".join(chunks))


def carried(trace: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return a trace's own events, after the ones added in front."""
    n = sum("memreplay_carried" in event for event in trace)
    assert all(event["memreplay_carried"] is True for event in trace[:n])
    return trace[:n], trace[n:]


def events_kept(
    trace: list[Any], live: dict[int, tuple[int, bool]], least: int
) -> tuple[list[Any], list[int]]:
    """Select slowly, as a reference: return the events to write and the sizes of the allocations
    left out. Events for small allocations aren't written.

    `live` has, by address, each block's size at the start and whether it is written.
    """
    kept = []
    small = [size for size, _ in live.values() if size < least]
    for event in trace:
        action, addr, size = event["action"], event.get("addr", 0), event.get("size", 0)
        keep = True
        if action == "alloc":
            # An event that frees a written block is written as well.
            keep = size >= least or live.get(addr, (0, False))[1]
            live[addr] = size, keep
            small += [size] * (not keep)
        elif action in ("free_requested", "free_completed"):
            keep = live[addr][1] if addr in live else size >= least
            if action == "free_completed":
                live.pop(addr, None)
        if keep:
            kept.append(event)
    return kept, small


def numbers(event: Any) -> Any:
    return event["action"], event.get("addr", 0), event.get("size", 0)


@given(snapshot=traces(max_events=30), least=LEASTS)
def test_events_of_any_trace_match_the_slow_selection(snapshot: Any, least: int) -> None:
    snap = mr.open(build.dump(snapshot))
    report, made = sliced(snap, min_bytes=least)
    for device in report.devices:
        if device.device >= len(snapshot["device_traces"]):
            continue
        replay = snap.replay(device.device)
        base = replay.lifetimes
        before = base.alloc_event < replay.first_event
        live = {
            int(addr): (int(size), int(size) >= least)
            for addr, size in zip(base.address[before], base.size[before], strict=True)
        }
        want, small = events_kept(snapshot["device_traces"][device.device], live, least)
        _, found = carried(made["device_traces"][device.device])
        assert list(map(numbers, found)) == list(map(numbers, want))
        assert device.written_events == len(want)
        assert (device.small_allocations, device.small_bytes) == (len(small), sum(small))


@given(recording=recordings(max_devices=1), data=st.data())
def test_prefix_restores_the_live_set(recording: Recording, data: st.DataObject) -> None:
    events = len(recording.snapshot["device_traces"][0])
    first = data.draw(st.integers(0, events))
    last = data.draw(st.integers(first, events))
    least = data.draw(LEASTS)
    snap = mr.open(build.dump(recording.snapshot), start=first, stop=last)
    if not snap.devices:
        return
    replay = snap.replay()
    report, made = sliced(snap, min_bytes=least)
    front, own = carried(made["device_traces"][replay.device])
    (device,) = report.devices
    assert device.leading_events == len(front)
    assert device.written_events == len(own)
    live = replay.live_at(event=replay.start)
    there = sorted(zip(live.address.tolist(), live.size.tolist(), strict=True))
    told = sorted((e["addr"], e["size"]) for e in front if e["action"] == "alloc")
    ended = sorted((e["addr"], e["size"]) for e in front if e["action"] == "free_completed")
    assert set(told) - set(ended) <= set(there)
    assert len({addr for addr, _ in told}) == len(told)
    assert all(size >= least for _, size in told)
    requested = [e["addr"] for e in front if e["action"] == "free_requested"]
    assert set(requested) <= {addr for addr, _ in told}
    # Each block that isn't reported is freed by an event in the range, or survives in a final
    # block.
    blocks = {
        b["address"] for s in made["segments"] for b in s["blocks"] if b["state"] != "inactive"
    }
    freed = {e["addr"] for e in own if e["action"] == "free_completed"}
    for addr, size in there:
        if size >= least and (addr, size) not in told:
            assert addr in freed | blocks


@given(recording=recordings(max_devices=1), data=st.data())
def test_segments_add_up(recording: Recording, data: st.DataObject) -> None:
    events = len(recording.snapshot["device_traces"][0])
    first = data.draw(st.integers(0, events))
    last = data.draw(st.integers(first, events))
    snap = mr.open(build.dump(recording.snapshot), start=first, stop=last)
    _, made = sliced(snap, min_bytes=data.draw(LEASTS))
    for segment in made["segments"]:
        blocks = segment["blocks"]
        used = [b for b in blocks if b["state"] != "inactive"]
        assert sum(b["size"] for b in blocks) == segment["total_size"]
        assert sum(b["size"] for b in used) == segment["active_size"]
        assert sum(b["requested_size"] for b in used) == segment["requested_size"]
        allocated = [b["size"] for b in used if b["state"] == "active_allocated"]
        assert sum(allocated) == segment["allocated_size"]
        at = segment["address"]
        for block in blocks:
            assert block["address"] == at
            at += block["size"]


def front_of(builder: SnapshotBuilder, start: int, **options: Any) -> list[tuple[str, int, int]]:
    snap = mr.open(build.dump(builder.finish_segments().build()), start=start)
    _, made = sliced(snap, **options)
    return [numbers(event) for event in carried(made["device_traces"][0])[0]]


def test_frees_with_their_own_stack_need_no_alloc() -> None:
    pair = SnapshotBuilder().alloc(A, 5, frames=F).alloc(B, 6, frames=F)
    # The free has its allocation's stack, as another pair in the range shows.
    same = pair.free_completed(A, 5, frames=F).alloc(C, 1, frames=G).free_completed(C, 1, frames=G)
    assert front_of(same, 2) == []


@pytest.mark.parametrize(
    "size, frames, want",
    [
        (5, F, [("alloc", A, 5)]),  # no pair in the range shows whose stack a free carries
        (6, F, [("alloc", A, 5)]),  # has another size
        (5, G, [("alloc", A, 5)]),
        (5, [], [("alloc", A, 5)]),
    ],
)
def test_free_without_its_allocs_stack_gets_an_alloc_event(
    size: int, frames: Any, want: Any
) -> None:
    builder = SnapshotBuilder().alloc(A, 5, frames=F).alloc(B, 6, frames=F)
    assert front_of(builder.free_completed(A, size, frames=frames), 2) == want


def test_frees_without_any_stack_need_no_alloc() -> None:
    builder = SnapshotBuilder().alloc(A, 5, frames=[]).alloc(B, 6, frames=[])
    assert front_of(builder.free_completed(A, 5, frames=[]), 2) == []
    with_stacks = SnapshotBuilder().alloc(A, 5, frames=F).alloc(B, 6, frames=G)
    assert front_of(with_stacks.free_completed(A, 5, frames=[]), 2, strip="all") == []


def test_block_with_a_pending_free_gets_its_request() -> None:
    builder = SnapshotBuilder().alloc(A, 5, frames=F).free_requested(A, 5, frames=F)
    builder.alloc(B, 7).free_completed(A, 5, frames=F)
    # Nothing in the range shows that requests are recorded.
    assert front_of(builder, 2) == [("alloc", A, 5), ("free_requested", A, 5)]


def test_small_allocations_are_left_out() -> None:
    builder = SnapshotBuilder().alloc(A, 5, frames=F).alloc(B, 600, frames=F).alloc(C, 1)
    builder.free_completed(A, 5, frames=G).free_completed(B, 600, frames=G)
    snap = mr.open(build.dump(builder.finish_segments().build()), start=2)
    report, made = sliced(snap, min_bytes=512)
    (device,) = report.devices
    assert (device.small_allocations, device.small_bytes) == (2, 6)
    front, own = carried(made["device_traces"][0])
    assert list(map(numbers, front)) == [("alloc", B, 600)]
    assert list(map(numbers, own)) == [("free_completed", B, 600)]
    assert (device.events, device.written_events, device.leading_events) == (3, 1, 1)
    assert all(b["state"] == "inactive" for s in made["segments"] for b in s["blocks"])
    # An allocation as large as the bound isn't below it.
    report, _ = sliced(snap, min_bytes=600)
    assert report.devices[0].written_events == 1
    report, _ = sliced(snap, min_bytes=601)
    assert report.devices[0].written_events == 0


def test_small_allocation_that_replaces_a_large_one_is_kept() -> None:
    builder = SnapshotBuilder().alloc(A, 1_000).alloc(A, 5).free_completed(A, 5).alloc(A, 6)
    snap = mr.open(build.dump(builder.build()))
    _, made = sliced(snap, min_bytes=512)
    own = carried(made["device_traces"][0])[1]
    assert list(map(numbers, own)) == [
        ("alloc", A, 1_000),
        ("alloc", A, 5),
        ("free_completed", A, 5),
    ]


def test_parts_of_another_snapshot_are_refused() -> None:
    builder = SnapshotBuilder().segment_alloc(A, 2 << 20).alloc(A, 512)
    snap, other = (mr.open(build.dump(builder.build()), stop=1) for _ in range(2))
    ours, theirs = snap.replay(), other.replay()
    for blocks, block_map, stripped in (
        (theirs.blocks, None, None),
        (None, theirs.block_map(0), None),
        (None, None, Stripped(other.native, None)),
    ):
        with pytest.raises(ValueError, match=r"belongs to another (replay|snapshot)"):
            Excerpt(ours.holding, blocks, block_map, stripped, 0)
    made = Excerpt(ours.holding, ours.blocks, ours.block_map(0), None, 0)
    assert made.holding is ours.holding
    assert made.blocks is ours.blocks
    assert made.stripped is None
    assert (made.events, made.leading, made.small) == (1, 0, (0, 0))
