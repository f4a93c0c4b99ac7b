"""Summarize each device's allocations over the recording: sizes, lifetimes, call sites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import asdict

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.ways import is_of_parts
from memreplay.analysis.groups.ways.blocks import NO_SIZE, BySize, ByStream
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.allocations.result import (
    AllocationGroup,
    AllocationsReport,
    AllocationSums,
    DeviceAllocations,
    EventsClass,
    SizeClass,
    TimeClass,
)
from memreplay.declared import Opt, Options
from memreplay.engine.query import _churn
from memreplay.errors import UsageError
from memreplay.snapshot.model import AllocationsSort
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


MOST = 1 << 32  # more than the number of allocations in any trace


class _Row(NamedTuple):
    """Sums over a group's allocations, as returned by the engine."""

    name: int
    made: int
    bytes: int
    temporary_count: int
    temporary_bytes: int
    live_count: int
    live_bytes: int
    lifetime_events: int
    timed_count: int
    lifetime_us: int


class AllocationsOptions(Options, frozen=True):
    """Options for the order of the groups, and for which allocations count as temporary."""

    sort: Annotated[
        AllocationsSort,
        Opt(
            "Sort groups by bytes, number of allocations, number of temporary allocations, or mean"
            " lifetime.",
            "COLUMN",
            brief="Sort by bytes, count, temporary or mean-lifetime.",
        ),
    ] = "bytes"
    temporary: Annotated[
        int,
        Opt(
            "Count an allocation as temporary if at most N other allocations happen before it's"
            " freed.",
            "N",
            least=0,
            shown="0",
            brief="Temporary: freed after at most N other allocations.",
        ),
    ] = 0


@takes(
    selection=Selection,
    options=AllocationsOptions,
    without=("only_carried_over", "no_carried_over"),
)
def allocations_report(
    snap: Snapshot, selection: Selection, options: AllocationsOptions
) -> AllocationsReport:
    """Summarize all allocations of the selected events on each device with data.

    `sort` orders the groups. `temporary`: an allocation is temporary if it's freed before more than
    this many others follow. `top` limits the groups (0: all). With `pool` or `stream`, only
    allocations of that pool or stream count, and devices without it are left out. Raises UsageError
    for reserved memory, which has no allocations, and for an unknown pool or stream.

    With `fold`, stacks that differ only in plumbing frames are merged.
    """
    by = selection.by or "stack"
    if selection.measure == "reserved":
        raise UsageError(
            "reserved memory has no allocations; memreplay fragmentation --segments shows"
            " its segments"
        )
    if selection.filters is not None and selection.filters.only_carried_over:
        raise UsageError(
            "carried-over memory wasn't allocated in the recording, so nothing would be left"
        )
    grouper = Grouper(snap, by, selection.rules, fold=selection.fold)
    usages = chosen_usages(snap, selection)
    return AllocationsReport(
        file=snap.file,
        measure=selection.measure,
        by=by,
        sort=options.sort,
        temporary_threshold=options.temporary,
        pool=selection.pool,
        stream=selection.stream,
        filters=selection.filters or None,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        devices=tuple(_device(snap, usage, grouper, selection, options) for usage in usages),
    )


def _device(
    snap: Snapshot,
    usage: Usage,
    grouper: Grouper,
    selection: Selection,
    options: AllocationsOptions,
) -> DeviceAllocations:
    replay = usage.replay
    temporary = min(options.temporary, MOST)
    found = _churn.allocations(
        usage.native, grouper.keys(usage), options.sort, selection.top, temporary
    )
    whole = _Row(*found["whole"])
    rows = [_Row(*row) for row in found["rows"]]
    trust = verdict(snap, usage, strict=selection.strict)
    times = found["times"]
    lifetimes_us = found["lifetimes_us"]
    ended = whole.made - whole.live_count
    peak = usage.peak.bytes
    duration = None if times is None else times[1] - times[0]
    seconds = (duration or 0) / 1e6
    rest = _less(whole, rows)
    return DeviceAllocations(
        **inlined(DeviceAllocations, device_facts(snap, replay, trust)),
        measure=usage.measure,
        allocation_count=whole.made,
        allocated_bytes=whole.bytes,
        frees=ended,
        **_means(whole),
        min_bytes=found["min_bytes"] if whole.made else None,
        max_bytes=found["max_bytes"] if whole.made else None,
        median_bytes=found["median_bytes"] if whole.made else None,
        median_lifetime_events=found["median_events"] if ended else None,
        median_lifetime_us=found["median_us"] if whole.timed_count else None,
        peak_bytes=peak,
        peak_ratio=whole.bytes / peak if peak else None,
        new_segment_count=found["grown"],
        duration_us=duration,
        allocations_per_s=whole.made / seconds if seconds else None,
        bytes_per_s=whole.bytes / seconds if seconds else None,
        carried_over_count=found["carried"][0],
        carried_over_bytes=found["carried"][1],
        carried_over_freed_count=found["carried_freed"][0],
        carried_over_freed_bytes=found["carried_freed"][1],
        sizes=_sizes(found["sizes"]),
        lifetimes_events=tuple(EventsClass(*one) for one in _tens(found["lifetimes_events"])),
        lifetimes_us=None
        if lifetimes_us is None
        else tuple(TimeClass(*one) for one in _tens(lifetimes_us)),
        untimed_count=found["untimed"][0],
        untimed_bytes=found["untimed"][1],
        groups_total=found["groups"],
        rest_bytes=rest.bytes,
        rest_count=rest.made,
        groups=tuple(_group(usage, grouper, row, whole.bytes) for row in rows),
        rest=AllocationSums(count=rest.made, bytes=rest.bytes, **_means(rest)),
    )


def _group(usage: Usage, grouper: Grouper, row: _Row, whole: int) -> AllocationGroup:
    """Return one group with its label and, if grouped by pool, stream or size, that value."""
    group = grouper.group(usage, row.name, row.bytes, row.made, whole)
    alone: dict[str, Any] = {}
    if grouper.by == BySize.name:
        alone["min_bytes"], alone["max_bytes"] = _size_range(row.name)
    elif is_of_parts(grouper.by):
        key = usage.replay.classes(grouper.by).keys()[row.name]
        alone[grouper.by] = key if grouper.by == ByStream.name else usage.replay.pool_of(key)
    return AllocationGroup(**asdict(group), **alone, **_means(row))


def _means(row: _Row) -> dict[str, Any]:
    """Return the fields of AllocationSums other than count and bytes."""
    return {
        "mean_bytes": _mean(row.bytes, row.made),
        "temporary_count": row.temporary_count,
        "temporary_bytes": row.temporary_bytes,
        "live_count": row.live_count,
        "live_bytes": row.live_bytes,
        "mean_lifetime_events": _mean(row.lifetime_events, row.made - row.live_count),
        "mean_lifetime_us": _mean(row.lifetime_us, row.timed_count),
    }


def _less(whole: _Row, rows: list[_Row]) -> _Row:
    """Return the total minus the sum of these rows."""
    return _Row(*(total - sum(parts) for total, *parts in zip(whole, *rows, strict=True)))


def _mean(total: int, count: int) -> int | None:
    # Use integers, because a forged file's sums can exceed a float's precision.
    return (total + count // 2) // count if count else None


def _size_range(number: int) -> tuple[int, int]:
    """Return the smallest and largest size of a class. Class k covers the sizes from 2**k to
    2**(k + 1) - 1. NO_SIZE is the class of size 0.
    """
    return (0, 0) if number == NO_SIZE else (1 << number, (2 << number) - 1)


def _sizes(found: list[tuple[int, int, int]]) -> tuple[SizeClass, ...]:
    classes = [SizeClass(*_size_range(number), *sums) for number, *sums in found]
    return tuple(sorted(classes, key=lambda one: one.min_bytes))


def _tens(found: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Yield (shortest, longest, count, bytes) of each lifetime class. Class 0 covers lifetime 0;
    class k covers the lifetimes from 10**(k - 1) to 10**k - 1.
    """
    for number, count, n_bytes in found:
        yield 10 ** (number - 1) if number else 0, 10**number - 1, count, n_bytes
