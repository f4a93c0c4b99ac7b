"""A slice gives the same numbers as its range, in memreplay and in other readers."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.export.snapshots.cutting import cut
from tests import build, oracle
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder
from tests.compare import stack_of
from tests.strategies import traces

Live = list[tuple[int, int, Any]]


def sliced(snap: mr.Snapshot, **options: Any) -> bytes:
    return b"".join(cut(snap, **options)[1])


def live_set(snap: mr.Snapshot, replay: Any, event: int) -> Live:
    live = replay.live_at(event=event)
    found = zip(live.address.tolist(), live.size.tolist(), live.stack.tolist(), strict=True)
    return sorted((address, size, stack_of(snap, stack)) for address, size, stack in found)


def assert_same(whole: mr.Snapshot, part: mr.Snapshot, *, blocks: bool) -> None:
    """Check that both snapshots have the same events and numbers and, with `blocks`, the same block
    sizes.
    """
    for device in whole.devices:
        want = whole.replay(device)
        if device not in part.devices:
            assert want.events == 0
            continue
        found = part.replay(device)
        assert found.events == want.events
        first = want.native.first_row
        rows = slice(first, first + want.events)
        at = slice(found.native.first_row, found.native.first_row + found.events)
        # Codes of unknown actions are numbered in order of appearance in the file.
        assert [part.action_name(code) for code in part.events.action[at].tolist()] == [
            whole.action_name(code) for code in whole.events.action[rows].tolist()
        ]
        for name in ("address", "size", "stream"):
            assert (
                getattr(part.events, name)[at].tolist()
                == getattr(whole.events, name)[rows].tolist()
            )
        assert [part.metadata(i) for i in part.events.user_metadata[at].tolist()] == [
            whole.metadata(i) for i in whole.events.user_metadata[rows].tolist()
        ]
        for name in ("requested", "held", *(("reserved", "active", "allocated") if blocks else ())):
            a, b = want.measure(name), found.measure(name)
            assert b.series.tolist() == a.series.tolist(), (device, name)
            assert b.start_bytes == a.start_bytes, (device, name)
        for event in {-1, want.events // 2 - 1, want.events - 1}:
            assert live_set(part, found, found.first_event + event) == live_set(
                whole, want, want.first_event + event
            )


def assert_for_others(
    data: bytes, whole: Any, device: int, first: int, last: int, leading: int
) -> None:
    """Check that the oracle, which knows nothing about slices, gets the range's numbers from the
    slice.
    """
    want = oracle.replay(whole, device)
    found = oracle.replay(pickle.loads(data), device)
    n = min(last, len(want.usage)) - min(first, len(want.usage))
    assert len(found.usage) == leading + n
    usage = [found.carried_over_bytes, *found.usage]
    before = [want.carried_over_bytes, *want.usage]
    start = min(first, len(want.usage))
    assert usage[leading:] == before[start : start + n + 1]
    # The leading events stay at or below the level at the start, so none of them is a peak.
    assert max(usage[: leading + 1]) <= max(usage[leading], found.carried_over_bytes)


@pytest.mark.parametrize("completed", [False, True])
def test_free_may_be_requested_before_the_range_and_again_inside(completed: bool) -> None:
    builder = SnapshotBuilder().alloc(0x1000, 64).free_requested(0x1000, 64)
    builder.alloc(0x2000, 8).free_requested(0x1000, 64)
    if completed:
        builder.free_completed(0x1000, 64)
    else:
        block = builder.block(0x1000, 512, 64, "active_pending_free")
        builder.segment(0x1000, 512, blocks=[block])
    data = build.dump(builder.build())
    whole = mr.open(data, start=2)
    part = mr.open(sliced(whole))
    for measure in ("requested", "held"):
        a, b = whole.replay(0).measure(measure), part.replay(0).measure(measure)
        assert b.start_bytes == a.start_bytes
        assert b.series.tolist() == a.series.tolist()


def test_free_without_allocation_does_not_make_free_stacks_trusted() -> None:
    builder = SnapshotBuilder().alloc(0x1000, 8).alloc(0x2000, 8).free_completed(0x2000, 8)
    builder.free_completed(0x1000, 8, frames=[("forward", "/a.py", 1)])
    builder.free_completed(0x2000, 8)
    whole = mr.open(build.dump(builder.build()), start=3)
    part = mr.open(sliced(whole))
    assert_same(whole, part, blocks=False)


@given(snapshot=traces(max_events=30), data=st.data())
def test_slice_of_any_trace_matches_its_range(snapshot: Any, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, 32), "first")
    last = data.draw(st.integers(first, 34), "last")
    whole = mr.open(build.dump(snapshot), start=first, stop=last)
    pickled = sliced(whole)
    assert_same(whole, mr.open(pickled), blocks=False)
    assert pickled == sliced(mr.open(build.dump(snapshot), start=first, stop=last))


@given(recording=recordings(), data=st.data())
def test_slice_of_a_random_program_matches_its_range(
    recording: Recording, data: st.DataObject
) -> None:
    events = max(map(len, recording.snapshot["device_traces"]))
    first = data.draw(st.integers(0, events), "first")
    last = data.draw(st.integers(first, events), "last")
    file = build.dump(recording.snapshot)
    whole = mr.open(file, start=first, stop=last)
    report, chunks = cut(whole)
    pickled = b"".join(chunks)
    part = mr.open(pickled)
    assert_same(whole, part, blocks=True)
    for device in report.devices:
        assert_for_others(
            pickled, recording.snapshot, device.device, first, last, device.leading_events
        )
    again = sliced(part)
    assert_same(part, mr.open(again), blocks=True)


@given(recording=recordings(max_devices=1), data=st.data())
def test_slice_of_a_slice_matches_its_range(recording: Recording, data: st.DataObject) -> None:
    events = max(map(len, recording.snapshot["device_traces"]))
    cuts = sorted(data.draw(st.lists(st.integers(0, events), min_size=4, max_size=4), "cuts"))
    file = build.dump(recording.snapshot)
    outer = mr.open(sliced(mr.open(file, start=cuts[0], stop=cuts[3])))
    leading = outer.replay().first_event if outer.devices else 0
    shift = leading - cuts[0]
    inner = mr.open(
        sliced(outer),
        start=cuts[1] + shift,
        stop=cuts[2] + shift,
    )
    # Evidence from pairs of an alloc and a free may differ, because other events near the range are
    # read.
    at_once = mr.open(file, start=cuts[1], stop=cuts[2])
    if at_once.devices and inner.devices:
        want, found = at_once.replay(), inner.replay()
        assert found.usage.tolist() == want.usage.tolist()
        assert found.carried_over_bytes == want.carried_over_bytes
        assert found.measure("reserved").series.tolist() == want.measure("reserved").series.tolist()
    assert_same(inner, mr.open(sliced(inner)), blocks=True)


@given(recording=recordings(), data=st.data())
def test_slice_without_small_allocations_has_the_curve_of_the_large_ones(
    recording: Recording, data: st.DataObject
) -> None:
    """Other commands show this curve with --only min-bytes."""
    events = max(map(len, recording.snapshot["device_traces"]))
    first = data.draw(st.integers(0, events), "first")
    last = data.draw(st.integers(first, events), "last")
    least = data.draw(st.sampled_from([1, 513, 4096, 1 << 20, 20 << 20]), "least")
    whole = mr.open(build.dump(recording.snapshot), start=first, stop=last)
    report, chunks = cut(whole, min_bytes=least)
    part = mr.open(b"".join(chunks))
    for device in report.devices:
        if device.device not in part.devices:
            continue
        want = whole.replay(device.device)
        found = part.replay(device.device)
        lives = want.lifetimes
        large = lives.size >= least
        changes = np.zeros(want.events + 1, dtype=np.int64)
        np.add.at(changes, np.maximum(lives.alloc_event[large] - want.start, 0), lives.size[large])
        ended = large & (lives.free_event >= 0)
        np.add.at(changes, lives.free_event[ended] - want.start, -lives.size[ended])
        series = np.cumsum(changes)
        kept = series.tolist()
        # Events that are left out don't change the curve.
        got = [found.carried_over_bytes, *found.usage.tolist()]
        assert dedupe(got) == dedupe(kept)
        assert device.small_allocations == int((~large).sum())
        assert device.small_bytes == int(lives.size[~large].sum())
        assert found.measure("reserved").peak.bytes == want.measure("reserved").peak.bytes


def dedupe(values: list[int]) -> list[int]:
    return [v for i, v in enumerate(values) if i == 0 or v != values[i - 1]]


@given(recording=recordings(max_devices=1), data=st.data())
def test_slice_without_stacks_has_the_same_curve(recording: Recording, data: st.DataObject) -> None:
    events = max(map(len, recording.snapshot["device_traces"]))
    first = data.draw(st.integers(0, events), "first")
    file = build.dump(recording.snapshot)
    whole = mr.open(file, start=first)
    part = mr.open(sliced(whole, strip="all"))
    assert part.native.events_with_stack == 0
    for device in part.devices:
        assert part.replay(device).usage.tolist() == whole.replay(device).usage.tolist()
