"""allocations: every number matches a slow sum over all lifetimes (tests/oracle_allocations.py)."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

import memreplay as mr
from memreplay.analysis.categories.rules import Rule
from memreplay.analysis.code.plumbing import ranks
from memreplay.analysis.groups.ways import WAYS
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.allocations.find import allocations_report
from memreplay.commands.allocations.result import AllocationGroup, AllocationSums, DeviceAllocations
from memreplay.errors import UsageError
from memreplay.snapshot.model import AllocationsSort, Frame, MeasureName, Moment
from memreplay.snapshot.replay import Usage
from tests import build, oracle
from tests import oracle_allocations as slow
from tests.allocator_strategies import Recording, recordings
from tests.build import START_US, SnapshotBuilder
from tests.examples import examples
from tests.oracle_allocations import Life
from tests.oracle_ways import Named
from tests.strategies import traces

KEYED = ("stack", "line", "file", "function", "stream", "size")
SORTS: tuple[AllocationsSort, ...] = ("bytes", "count", "temporary", "mean-lifetime")
MEASURES: tuple[MeasureName, ...] = ("requested", "held", "active", "allocated")


def fields(sums: AllocationSums | slow.Sums) -> tuple[object, ...]:
    return tuple(getattr(sums, name) for name in slow.Sums.__annotations__)


def check_whole(
    found: DeviceAllocations, lives: list[Life], events: list[Any], threshold: int
) -> None:
    """Check that totals, classes and medians match the oracle's."""
    times = slow.clock(events)
    assert fields(found.total) == fields(slow.summed(lives, events, threshold))
    assert found.frees == found.allocation_count - found.live_count
    assert (found.peak_ratio or 0) * found.peak_bytes == pytest.approx(
        found.allocated_bytes if found.peak_bytes else 0
    )
    seconds = (found.duration_us or 0) / 1e6
    assert (found.allocations_per_s or 0) * seconds == pytest.approx(
        found.allocation_count if seconds else 0
    )
    assert (found.bytes_per_s is None) == (not seconds)
    classes = slow.in_classes([(one.size, one.size) for one in lives], 2)
    assert [(c.min_bytes, c.max_bytes, c.count, c.bytes) for c in found.sizes] == classes
    ended = [(one.end - one.alloc, one.size) for one in lives if one.end is not None]
    classes = slow.in_classes(ended, 10)
    assert [
        (c.min_events, c.max_events, c.count, c.bytes) for c in found.lifetimes_events
    ] == classes
    us = [(known, one.size) for one in lives if (known := slow.lifetime_us(one, times)) is not None]
    if found.lifetimes_us is None:
        assert not any(time is not None for time in times)
        assert found.duration_us is None
    else:
        classes = slow.in_classes(us, 10)
        assert [(c.min_us, c.max_us, c.count, c.bytes) for c in found.lifetimes_us] == classes
        known_times = [time for time in times if time is not None]
        assert found.duration_us == known_times[-1] - known_times[0]
    untimed = found.untimed_count, found.untimed_bytes
    assert untimed == (
        len(ended) - len(us),
        sum(n for _, n in ended) - sum(n for _, n in us),
    ) or (found.lifetimes_us is None and untimed == (len(ended), sum(n for _, n in ended)))
    sizes = [one.size for one in lives]
    assert (found.min_bytes, found.max_bytes) == (
        min(sizes, default=None),
        max(sizes, default=None),
    )
    assert found.median_bytes == slow.median(sizes)
    assert found.median_lifetime_events == slow.median([lasted for lasted, _ in ended])
    assert found.median_lifetime_us == slow.median([lasted for lasted, _ in us])
    assert found.new_segment_count == slow.needed_segments(lives, events)


def check_groups(
    found: DeviceAllocations,
    by_key: dict[Any, list[Life]],
    events: list[Any],
    threshold: int,
    keys: dict[Any, AllocationGroup],
) -> None:
    """Compare each group with the oracle, and their sum with the total."""
    assert found.groups_total == len(found.groups) == len(by_key) == len(keys)
    for key, lives in by_key.items():
        one = keys[key]
        assert fields(one.sums) == fields(slow.summed(lives, events, threshold))
        assert (one.bytes, one.count) == (one.sums.bytes, one.sums.count)
        whole = found.total.bytes
        assert one.share == (one.bytes / whole if whole else 0.0)
    assert fields(found.rest) == (0, 0, None, 0, 0, 0, 0, None, None)


def label_of(snap: mr.Snapshot, frames: oracle.Stack) -> oracle.FrameTuple:
    """Return the innermost frame of the lowest rank."""
    file_rank, function_rank = ranks(snap.code)
    ids = {snap.text(i): i for i in range(snap.native.n_strings)}

    def rank(frame: oracle.FrameTuple) -> int:
        return file_rank[ids[frame[1]]] and function_rank[ids[frame[0]]]

    return min(frames, key=rank)


def key_of(snap: mr.Snapshot, by: str, one: Life) -> object:
    if by == "stream":
        return one.key.get("stream", 0)
    if by == "size":
        return one.size.bit_length()
    frames = oracle.stack_of(one.key)
    if not frames or by == "stack":
        return frames
    label = label_of(snap, frames)
    return {"line": label, "file": label[1], "function": label[0]}[by]


def key_shown(by: str, one: AllocationGroup) -> object:
    """Return a report group's key in the same form."""
    if by == "stream":
        return one.stream
    if by == "size":
        assert isinstance(one.max_bytes, int)
        return one.max_bytes.bit_length()
    frames = tuple((f.function, f.file, f.line) for f in one.frames)
    if not frames or by == "stack":
        return frames
    return {"line": frames[0], "file": frames[0][1], "function": frames[0][0]}[by]


@settings(max_examples=examples(250), deadline=None)
@given(
    traces(),
    st.sampled_from(["requested", "held"]),
    st.sampled_from(KEYED),
    st.sampled_from(SORTS),
    st.integers(0, 3),
)
def test_report_on_any_trace_matches_the_oracle(
    snapshot: build.Snapshot,
    measure: MeasureName,
    by: str,
    sort: AllocationsSort,
    threshold: int,
) -> None:
    snap = mr.open(build.dump(snapshot))
    report = allocations_report(snap, measure=measure, by=by, sort=sort, top=0, temporary=threshold)
    for found in report.devices:
        events = oracle.trace_of(snapshot, found.device)
        lives = slow.lives(snapshot, found.device, measure)
        check_whole(found, lives, events, threshold)
        by_key: dict[object, list[Life]] = defaultdict(list)
        for one in lives:
            by_key[key_of(snap, by, one)].append(one)
        shown = {key_shown(by, one): one for one in found.groups}
        check_groups(found, by_key, events, threshold, shown)
        check_order(found, sort)
        replay = oracle.replay(snapshot, found.device)
        if measure == "requested":
            carried = [one for one in replay.lifetimes if one.alloc_index == -1]
            freed = [one for one in carried if one.free_index is not None]
            assert (found.carried_over_count, found.carried_over_bytes) == (
                len(carried),
                replay.carried_over_bytes,
            )
            assert (found.carried_over_freed_count, found.carried_over_freed_bytes) == (
                len(freed),
                sum(one.size for one in freed),
            )
            assert found.peak_bytes == replay.peak_bytes


@settings(max_examples=examples(300), deadline=None)
@given(
    traces(),
    st.sampled_from(["requested", "active"]),
    st.lists(st.sampled_from([*WAYS]), min_size=1, max_size=3, unique=True).map(",".join),
    st.integers(0, 1),
)
def test_groups_by_any_keys_match_the_oracle(
    snapshot: build.Snapshot, measure: MeasureName, by: str, threshold: int
) -> None:
    snap = mr.open(build.dump(snapshot))
    report = allocations_report(snap, measure=measure, by=by, top=0, temporary=threshold)
    assert report.by == by
    for found in report.devices:
        usage = snap.replay(found.device).measure(measure)
        events = oracle.trace_of(snapshot, found.device)
        named = Named(snapshot, snap, usage)
        by_label: dict[str, list[Life]] = defaultdict(list)
        for one in lives_of(usage):
            by_label[named.label(by, one.alloc)].append(one)
        # Several groups have the same label if their stacks are attributed to the same frame.
        shown: dict[str, list[tuple[int, ...]]] = defaultdict(list)
        for group in found.groups:
            shown[group.label].append(added(group.sums))
        assert {
            label: tuple(map(sum, zip(*rows, strict=True))) for label, rows in shown.items()
        } == {
            label: added(slow.summed(lives, events, threshold)) for label, lives in by_label.items()
        }


def added(sums: AllocationSums | slow.Sums) -> tuple[int, ...]:
    """Return the fields that add up."""
    counts = sums.count, sums.temporary_count, sums.live_count
    return *counts, sums.bytes, sums.temporary_bytes, sums.live_bytes


def test_groups_use_the_users_rules() -> None:
    stack = [("forward", "/home/me/model.py", 7)]
    builder = SnapshotBuilder().alloc(512, 1, frames=stack).alloc(1024, 2, frames=[])
    rules = (Rule("mine", frames="model"),)
    found = only(builder, by="category,size", rules=rules)
    assert [one.label for one in found.groups] == ["unknown, 2 B to 4 B", "mine, 1 B to 2 B"]
    # Sizes are given only if groups have a single key.
    assert [one.max_bytes for one in found.groups] == [UNSET, UNSET]


def test_filters_limit_what_is_counted() -> None:
    stack = [("forward", "/home/me/model.py", 7)]
    builder = SnapshotBuilder().alloc(512, 100, frames=stack).alloc(1024, 20, frames=stack)
    builder.alloc(2048, 4, frames=[]).free_completed(512, 100).free_completed(9 << 30, 1)

    def left(**filters: Any) -> tuple[int, int, int, int]:
        found = only(builder, filters=Filters(**filters))
        assert sum(one.sums.bytes for one in found.groups) == found.total.bytes
        return found.total.count, found.total.bytes, found.peak_bytes, found.carried_over_count

    assert left(include=("model",)) == (2, 120, 120, 0)
    assert left(exclude=("model",)) == (1, 4, 5, 1)
    assert left(min_bytes=20) == (2, 120, 120, 0)
    assert left(include=("model",), only_live_at_end=True) == (1, 20, 20, 0)
    assert left(min_bytes=1 << 30) == (0, 0, 0, 0)
    with pytest.raises(UsageError, match="'nothing' matches no frame"):
        left(include=("nothing",))
    with pytest.raises(
        UsageError,
        match="carried-over memory wasn't allocated in the recording, so nothing would be left",
    ):
        left(only_carried_over=True)
    with pytest.raises(UsageError, match="'colour' is not one of"):
        only(builder, by="colour")


def check_order(found: DeviceAllocations, sort: AllocationsSort) -> None:
    """Check that groups are in the requested order. Ties are ordered by bytes, then by count."""

    def rank(one: AllocationGroup) -> tuple[float, int, int]:
        sums = one.sums
        mean = sums.mean_lifetime_events
        if found.lifetimes_us is not None:
            mean = sums.mean_lifetime_us
        first = {
            "bytes": 0,
            "count": sums.count,
            "temporary": sums.temporary_count,
            "mean-lifetime": -1 if mean is None else mean,
        }[sort]
        return first, sums.bytes, sums.count

    shown = [rank(one) for one in found.groups]
    if sort == "mean-lifetime":  # the displayed means are rounded
        assert [one[0] for one in shown] == sorted((one[0] for one in shown), reverse=True)
    else:
        assert shown == sorted(shown, reverse=True)


def lives_of(usage: Usage) -> list[Life]:
    """Return the allocations that a measure counts (checked in tests/property)."""
    native = usage.native
    ends, sizes = memoryview(native.ends()), memoryview(native.weights())
    counted = memoryview(native.counted())
    return [
        Life(i, None if ends[i] == 2**32 - 1 else ends[i], sizes[i])
        for i in range(len(counted))
        if counted[i]
    ]


@settings(max_examples=examples(80), deadline=None)
@given(
    recordings(),
    st.sampled_from(MEASURES),
    st.sampled_from(["pool", "stream", "size"]),
    st.integers(0, 2),
)
def test_report_on_any_recording_and_measure_matches_the_allocator(
    recording: Recording, measure: MeasureName, by: str, threshold: int
) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    report = allocations_report(snap, measure=measure, by=by, top=0, temporary=threshold)
    for found in report.devices:
        events = oracle.trace_of(recording.snapshot, found.device)
        replay = snap.replay(found.device)
        lives = lives_of(replay.measure(measure))
        check_whole(found, lives, events, threshold)
        by_key: dict[object, list[Life]] = defaultdict(list)
        for one in lives:
            if by == "size":
                by_key[one.size.bit_length()].append(one)
            else:
                classes = replay.classes(by)
                key = classes.keys()[memoryview(classes.of_events())[one.alloc]]
                by_key[replay.pool_of(key) if by == "pool" else key].append(one)
        shown = {one.pool if by == "pool" else key_shown(by, one): one for one in found.groups}
        check_groups(found, by_key, events, threshold, shown)
        if found.exactness == "exact":
            # The bytes that the allocator counted at the allocation.
            truth = recording.truths[found.device]
            series = [truth.start_of(measure), *truth.series(measure)]
            made = sum(series[one.alloc + 1] - series[one.alloc] for one in lives)
            assert found.total.bytes == made
            assert found.total.live_bytes - found.total.bytes <= 0


@settings(max_examples=examples(60), deadline=None)
@given(recordings(max_devices=1), st.sampled_from(MEASURES), st.integers(0, 6))
def test_rows_left_out_by_top_are_counted_in_the_rest(
    recording: Recording, measure: MeasureName, top: int
) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    for found in allocations_report(snap, measure=measure, by="size", top=top).devices:
        assert len(found.groups) == (min(top, found.groups_total) if top else found.groups_total)
        names = ("count", "bytes", "temporary_count", "temporary_bytes", "live_count", "live_bytes")
        for name in names:
            parts = [getattr(one.sums, name) for one in found.groups]
            whole = sum(parts) + getattr(found.rest, name)
            assert whole == getattr(found.total, name)


def only(builder: SnapshotBuilder, **options: Any) -> DeviceAllocations:
    snap = mr.open(build.dump(builder.build()))
    (found,) = allocations_report(snap, **options).devices
    return found


def test_pools_can_be_grouped_or_selected() -> None:
    builder = SnapshotBuilder()
    builder.alloc(512, 100, pool_id=(0, 1), stream=7).alloc(1024, 10, pool_id=(0, 0))
    builder.free_completed(512, 100, pool_id=(0, 1), stream=7)
    found = only(builder, by="pool")
    assert [(one.label, one.pool, one.sums.count) for one in found.groups] == [
        ("user pool 0:1", (0, 1), 1),
        ("default pool", (0, 0), 1),
    ]
    found = only(builder, by="stream", temporary=1)
    assert [(one.label, one.stream) for one in found.groups] == [
        ("stream 7", 7),
        ("default stream", 0),
    ]
    alone = only(builder, pool=(0, 1), temporary=0)
    assert (alone.total.count, alone.total.bytes, alone.peak_bytes) == (1, 100, 100)
    # Whether an allocation is temporary depends on all of the device's allocations, even if a pool
    # is selected.
    assert alone.total.temporary_count == 0
    assert only(builder, pool=(0, 1), temporary=1).total.temporary_count == 1
    with pytest.raises(UsageError, match="has no pool 9:9"):
        only(builder, pool=(9, 9))


def test_allocations_in_between_decide_what_is_temporary() -> None:
    builder = SnapshotBuilder().alloc(512, 1).free_requested(512, 1).free_completed(512, 1)
    builder.alloc(1024, 2).alloc(2048, 4).free_completed(2048, 4).free_completed(1024, 2)
    builder.alloc(4096, 8).event("segment_alloc", 1 << 30, 2 << 20)
    builder.free_requested(4096, 8).alloc(512, 16).free_completed(4096, 8)
    found = [only(builder, temporary=n).total for n in range(3)]
    # Allocations of other groups in between count, but their frees don't.
    assert [one.temporary_bytes for one in found] == [1 + 4, 1 + 2 + 4 + 8, 1 + 2 + 4 + 8]
    held = only(builder, measure="held").total
    assert held.temporary_bytes == 1 + 4 + 8


def test_lifetimes_are_known_if_times_decrease_or_start_late() -> None:
    builder = SnapshotBuilder()
    builder.alloc(512, 1).drop("time_us").alloc(1024, 2).drop("time_us")
    builder.alloc(2048, 4, time_us=START_US)
    builder.event("annotate", 0, 0, time_us=START_US + 30)
    builder.free_completed(2048, 4, time_us=START_US + 10)  # earlier than the previous event
    builder.free_completed(512, 1, time_us=START_US + 50)
    found = only(builder)
    assert found.lifetimes_us is not None
    assert [(c.min_us, c.max_us, c.count) for c in found.lifetimes_us] == [(10, 99, 1)]
    assert found.median_lifetime_us == 30
    assert (found.untimed_count, found.untimed_bytes) == (1, 1)
    assert found.duration_us == 50
    assert found.total.mean_lifetime_us == 30


def test_lifetimes_may_exceed_63_bits() -> None:
    builder = SnapshotBuilder()
    for addr in (512, 1024):
        builder.alloc(addr, 1, time_us=-(2**63) + 1)
    for addr in (512, 1024):
        builder.free_completed(addr, 1, time_us=2**63 - 1)
    found = only(builder)
    assert found.median_lifetime_us == 2**64 - 2
    assert found.total.mean_lifetime_us == (2**64 - 2)
    assert found.lifetimes_us is not None
    assert [(c.min_us, c.max_us) for c in found.lifetimes_us] == [(10**19, 10**20 - 1)]


def test_sums_may_exceed_64_bits() -> None:
    builder = SnapshotBuilder()
    for _ in range(10):
        builder.alloc(512, 2**61).free_completed(512, 2**61)
    builder.alloc(1024, 3)
    found = only(builder, by="size", top=1)
    assert found.total.bytes == 10 * 2**61 + 3
    assert found.total.temporary_bytes == 10 * 2**61
    assert [(one.bytes, one.count) for one in found.sizes] == [(3, 1), (10 * 2**61, 10)]
    assert [one.sums.bytes for one in found.groups] == [10 * 2**61]
    assert (found.rest.bytes, found.rest.count) == (3, 1)


def test_lifetimes_are_unknown_without_times_or_events() -> None:
    found = only(SnapshotBuilder(times=False).alloc(512, 1).free_completed(512, 1))
    assert (found.lifetimes_us, found.duration_us, found.median_lifetime_us) == (None, None, None)
    assert (found.median_lifetime_events, found.total.mean_lifetime_us) == (1, None)
    builder = SnapshotBuilder()
    builder.segment(1 << 30, 2 << 20, blocks=[builder.block(1 << 30, 512, 500)])
    found = only(builder)
    assert (found.total.count, found.groups, found.sizes) == (0, (), ())
    assert (found.min_bytes, found.median_bytes, found.median_lifetime_events) == (None,) * 3
    assert (found.carried_over_count, found.carried_over_bytes, found.carried_over_freed_count) == (
        1,
        500,
        0,
    )
    assert "no_events" in found.reasons


def test_range_counts_only_its_events() -> None:
    builder = SnapshotBuilder()
    builder.alloc(512, 100).alloc(1024, 7).free_completed(512, 100).alloc(512, 9)
    builder.free_completed(512, 9)
    snap = mr.open(
        build.dump(builder.build()),
        start=Moment("event", 2),
        stop=Moment("event", 4),
    )
    (found,) = allocations_report(snap).devices
    assert (found.first_event, found.events, found.trace_events) == (2, 2, 5)
    assert (found.total.count, found.total.bytes, found.total.live_count) == (1, 9, 1)
    assert (found.carried_over_count, found.carried_over_freed_bytes) == (2, 100)


def test_groups_have_frames_and_labels() -> None:
    stack = [
        ("empty", "/venv/lib/python3.12/site-packages/torch/cuda.py", 3),
        ("forward", "/home/me/model.py", 7),
    ]
    found = only(SnapshotBuilder().alloc(512, 1, frames=stack).alloc(1024, 2, frames=[]))
    labels = [(one.label, one.user) for one in found.groups]
    assert labels == [("(recorded without a stack)", ()), ("forward /home/me/model.py:7", (1,))]
    assert found.groups[1].frames[1] == Frame("forward", "/home/me/model.py", 7)


def test_reserved_memory_is_rejected() -> None:
    with pytest.raises(UsageError, match="reserved memory has no allocations"):
        only(SnapshotBuilder().alloc(512, 1), measure="reserved")


def test_huge_threshold_makes_every_freed_allocation_temporary() -> None:
    builder = SnapshotBuilder().alloc(512, 100).alloc(1024, 50).free(512, 100)
    snap = mr.open(build.dump(builder.build()))
    (found,) = allocations_report(snap, temporary=10**30).devices
    assert (found.total.temporary_count, found.total.count) == (1, 2)
