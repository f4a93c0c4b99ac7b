"""What each device allocated over the recording, or a range of it: sizes, lifetimes, by whom."""

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


MOST = 1 << 32  # above any number of allocations


class _Row(NamedTuple):
    """A sum as the engine gives it."""

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
    """Which groups come first, and what is temporary."""

    sort: Annotated[
        AllocationsSort,
        Opt(
            "Which groups come first: those with the most bytes, allocations or temporary"
            " allocations, or those that live longest.",
            "COLUMN",
            brief="bytes, count, temporary or mean-lifetime: what comes first.",
        ),
    ] = "bytes"
    temporary: Annotated[
        int,
        Opt(
            "Count an allocation as temporary if at most N others are made before it is freed.",
            "N",
            least=0,
            shown="0",
            brief="Temporary: freed before more than N others are made.",
        ),
    ] = 0


@takes(selection=Selection, options=AllocationsOptions)
def allocations_report(
    snap: Snapshot, selection: Selection, options: AllocationsOptions
) -> AllocationsReport:
    """Every allocation of the events that were read, of each device that has any data.

    `sort` says which groups come first. `temporary` is how many others may be made on the device
    while a temporary allocation lives. `top` cuts the groups (0: all of them). With `pool` or
    `stream` only that one counts; devices that have it not are left out. Raises UsageError for
    reserved memory, which is of segments, and for a pool or stream that is not there.

    With `fold` stacks that differ only in plumbing are one group.
    """
    by = selection.by or "stack"
    if selection.measure == "reserved":
        raise UsageError(
            "reserved memory consists of segments, not of allocations: memreplay fragmentation"
            " --segments shows them"
        )
    if selection.filters is not None and selection.filters.only_carried_over:
        raise UsageError(
            "what was carried over was not allocated in the recording: nothing would be left"
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
        allocations=whole.made,
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
    """One group, named; by pool, stream or size alone with what these are."""
    group = grouper.group(usage, row.name, row.bytes, row.made, whole)
    alone: dict[str, Any] = {}
    if grouper.by == BySize.name:
        alone["min_bytes"], alone["max_bytes"] = _size_range(row.name)
    elif is_of_parts(grouper.by):
        key = usage.replay.classes(grouper.by).keys()[row.name]
        alone[grouper.by] = key if grouper.by == ByStream.name else usage.replay.pool_of(key)
    return AllocationGroup(**asdict(group), **alone, **_means(row))


def _means(row: _Row) -> dict[str, Any]:
    """What is said of any allocations beside their count and bytes."""
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
    """What of the whole is in none of these."""
    return _Row(*(total - sum(parts) for total, *parts in zip(whole, *rows, strict=True)))


def _mean(total: int, count: int) -> int | None:
    # Of integers: the sums of a file that is made up may be more than a float tells apart.
    return (total + count // 2) // count if count else None


def _size_range(number: int) -> tuple[int, int]:
    """Size class k is from 2 ** k up to and not including 2 ** (k + 1); NO_SIZE is the size 0."""
    return (0, 0) if number == NO_SIZE else (1 << number, (2 << number) - 1)


def _sizes(found: list[tuple[int, int, int]]) -> tuple[SizeClass, ...]:
    classes = [SizeClass(*_size_range(number), *sums) for number, *sums in found]
    return tuple(sorted(classes, key=lambda one: one.min_bytes))


def _tens(found: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Class 0 is the lifetime 0, class k from 10 ** (k - 1) up to and not including 10 ** k."""
    for number, count, n_bytes in found:
        yield 10 ** (number - 1) if number else 0, 10**number - 1, count, n_bytes
