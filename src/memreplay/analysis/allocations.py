"""What each device allocated over the recording, or a range of it: sizes, lifetimes, by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay import _churn
from memreplay.analysis.choice import chosen_usages
from memreplay.analysis.grouping import Grouper, pool_label, stream_label
from memreplay.analysis.trust import strict_verdict, verdict
from memreplay.errors import UsageError
from memreplay.model import AllocationsBy, AllocationsSort, Group, MeasureName
from memreplay.results.allocations import (
    AllocationGroup,
    AllocationsReport,
    AllocationSums,
    DeviceAllocations,
    ValueClass,
)

if TYPE_CHECKING:
    from memreplay._native.column import Column
    from memreplay.replay import Usage
    from memreplay.snapshot import Snapshot


MOST = 1 << 32  # above any number of allocations


class _Row(NamedTuple):
    """A sum as the engine gives it."""

    key: int
    made: int
    bytes: int
    temporary_count: int
    temporary_bytes: int
    live_count: int
    live_bytes: int
    lifetime_events: int
    timed_count: int
    lifetime_us: int


def allocations_report(
    snap: Snapshot,
    *,
    measure: MeasureName = "requested",
    by: AllocationsBy = "stack",
    sort: AllocationsSort = "bytes",
    top: int = 20,
    threshold: int = 0,
    all_frames: bool = False,
    pool: tuple[int, int] | None = None,
    stream: int | None = None,
    strict: bool = False,
) -> AllocationsReport:
    """Every allocation of the events that were read, of each device that has any data.

    `threshold` is how many others may be made on the device while a temporary allocation lives.
    `top` cuts the groups (0: all of them). With `pool` or `stream` only that one counts; devices
    that have it not are left out. Raises UsageError for reserved memory, which is of segments, and
    for a pool or stream that is not there.
    """
    if measure == "reserved":
        raise UsageError("reserved memory is of segments, not of allocations: see segments")
    namer = _Namer(snap, by)
    usages = chosen_usages(snap, snap.devices, measure, pool, stream)
    return AllocationsReport(
        file=snap.file,
        measure=measure,
        by=by,
        sort=sort,
        threshold=threshold,
        all_frames=all_frames,
        truncated=snap.truncation is not None,
        pool=pool,
        stream=stream,
        devices=tuple(
            _device(snap, usage, namer, sort, top, threshold, strict) for usage in usages
        ),
    )


def _device(
    snap: Snapshot,
    usage: Usage,
    namer: _Namer,
    sort: AllocationsSort,
    top: int,
    threshold: int,
    strict: bool,
) -> DeviceAllocations:
    replay = usage.replay
    found = _churn.allocations(usage.native, *namer.keys(usage), sort, top, min(threshold, MOST))
    whole = _Row(*found["whole"])
    rows = [_Row(*row) for row in found["rows"]]
    trust = (strict_verdict if strict else verdict)(snap, usage)
    times = found["times"]
    lifetimes_us = found["lifetimes_us"]
    ended = whole.made - whole.live_count
    return DeviceAllocations(
        device=replay.device,
        measure=usage.measure,
        exactness="exact" if trust.exact else "estimated",
        first_event=replay.first_event,
        events=replay.events,
        trace_events=snap.trace_events(replay.device),
        duration_us=None if times is None else times[1] - times[0],
        total=_sums(whole),
        min_bytes=found["min_bytes"] if whole.made else None,
        max_bytes=found["max_bytes"] if whole.made else None,
        median_bytes=found["median_bytes"] if whole.made else None,
        median_lifetime_events=found["median_events"] if ended else None,
        median_lifetime_us=found["median_us"] if whole.timed_count else None,
        sizes=tuple(_value_class(2, *one) for one in found["sizes"]),
        lifetimes_events=tuple(_value_class(10, *one) for one in found["lifetimes_events"]),
        lifetimes_us=None
        if lifetimes_us is None
        else tuple(_value_class(10, *one) for one in lifetimes_us),
        untimed_count=found["untimed"][0],
        untimed_bytes=found["untimed"][1],
        grown_count=found["grown"],
        peak_bytes=usage.peak.bytes,
        baseline_count=found["carried"][0],
        baseline_bytes=found["carried"][1],
        baseline_freed_count=found["carried_freed"][0],
        baseline_freed_bytes=found["carried_freed"][1],
        groups=tuple(namer.group(usage, row, whole.bytes) for row in rows),
        groups_total=found["groups"],
        rest=_sums(_less(whole, rows)),
        trusted=trust.trusted,
        reasons=trust.reasons,
    )


class _Namer:
    """What to group by, and what the groups are called."""

    def __init__(self, snap: Snapshot, by: AllocationsBy) -> None:
        self.by = by
        # None for what is not of code.
        self.grouper: Grouper | None = None
        if by != "pool" and by != "stream" and by != "size":  # spelled out for the type checker
            self.grouper = Grouper(snap, by)

    def keys(self, usage: Usage) -> tuple[str, bytes, bytes, Column | None]:
        """The arguments for the engine that say so."""
        if self.grouper is not None:
            return self.by, self.grouper.file_rank, self.grouper.function_rank, None
        if self.by == "size":
            return "size", b"", b"", None
        return "class", b"", b"", usage.replay.classes(self.by).of_events()

    def group(self, usage: Usage, row: _Row, whole: int) -> AllocationGroup:
        """One group, named."""
        sums = _sums(row)
        if self.grouper is not None:
            group = self.grouper.group(usage, row.key, row.bytes, row.made, whole)
            return AllocationGroup(group, sums)
        share = row.bytes / whole if whole else 0.0

        def called(label: str) -> Group:
            return Group(label, row.bytes, row.made, share)

        if self.by == "size":
            one = _value_class(2, row.key, 0, 0)
            label = f"{one.least} to {one.most} bytes"
            return AllocationGroup(called(label), sums, sizes=(one.least, one.most))
        key = usage.replay.classes(self.by).keys()[row.key]
        if self.by == "stream":
            return AllocationGroup(called(stream_label(key)), sums, stream=key)
        pool = usage.replay.pool_of(key)
        return AllocationGroup(called(pool_label(pool)), sums, pool=pool)


def _sums(row: _Row) -> AllocationSums:
    return AllocationSums(
        count=row.made,
        bytes=row.bytes,
        mean_bytes=_mean(row.bytes, row.made),
        temporary_count=row.temporary_count,
        temporary_bytes=row.temporary_bytes,
        live_count=row.live_count,
        live_bytes=row.live_bytes,
        mean_lifetime_events=_mean(row.lifetime_events, row.made - row.live_count),
        mean_lifetime_us=_mean(row.lifetime_us, row.timed_count),
    )


def _less(whole: _Row, rows: list[_Row]) -> _Row:
    """What of the whole is in none of these."""
    return _Row(*(total - sum(parts) for total, *parts in zip(whole, *rows, strict=True)))


def _mean(total: int, count: int) -> int | None:
    # Of integers: the sums of a file that is made up may be more than a float tells apart.
    return (total + count // 2) // count if count else None


def _value_class(base: int, number: int, count: int, n_bytes: int) -> ValueClass:
    """Class 0 is the value 0, class k from base ** (k - 1) up to and not including base ** k."""
    least = base ** (number - 1) if number else 0
    return ValueClass(least, base**number - 1, count, n_bytes)
