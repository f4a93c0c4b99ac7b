"""Format allocations over a recording as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from memreplay.analysis.groups.ways import title_of
from memreplay.commands.allocations.result import (
    AllocationGroup,
    AllocationsReport,
    AllocationSums,
    DeviceAllocations,
    EventsClass,
    SizeClass,
    TimeClass,
)
from memreplay.render.document import (
    Bar,
    Beside,
    Block,
    Document,
    Heading,
    Note,
    Pairs,
    Place,
    Row,
    Table,
    device_blocks,
)
from memreplay.render.filters import NOTHING_LEFT, filter_pairs
from memreplay.render.holders import distinguish_rows, group_row, share
from memreplay.render.reasons import notes_of
from memreplay.render.trust import trust_label
from memreplay.render.units import (
    count,
    counted,
    fine_duration,
    percent,
    range_text,
    size,
)

_MOST_SIZES = 16  # maximum number of rows in the size histogram
_STEPS = (1, 2, 5, 10)  # possible numbers of powers of two per row; the first that fits is used
_INSTEAD = {
    "ring_overflow": "the recorder's ring buffer was full: allocations before the oldest remaining"
    " event aren't counted, and an earlier, higher peak may be missing",
    "synthetic_pool_events": "CUDA graph trees reset a pool to a checkpoint: those frees and"
    " allocations are PyTorch's own, not the program's, but they count here",
}


def allocations_document(report: AllocationsReport, *, all_frames: bool = False) -> Document:
    """Build a section per device: totals, sizes, lifetimes, call sites."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    blocks += device_blocks([_section(found, report, all_frames) for found in report.devices])
    return tuple(blocks)


def _section(found: DeviceAllocations, report: AllocationsReport, all_frames: bool) -> list[Block]:
    blocks: list[Block] = [Heading(_headline(found))]
    if found.trace_events == 0 and "no_events" not in found.reasons:
        return blocks
    if found.events:
        blocks.append(Pairs(_pairs(found, report)))
    if found.total.count:
        blocks.append(Beside((_sizes_table(found), _lifetimes_table(found))))
        blocks.append(_groups_table(found, report, all_frames))
    elif report.filters:
        blocks.append(Note(NOTHING_LEFT))
    if found.total.count and found.lifetimes_us is None:
        blocks.append(
            Note("the file has no times, so lifetimes are in events and rates aren't known")
        )
    said = frozenset(("no_events", "no_allocations"))
    blocks += notes_of(found, said=said, instead=_INSTEAD)
    return blocks


def _headline(found: DeviceAllocations) -> tuple[str, ...]:
    device = f"device {found.device}:"
    if found.events == 0:
        if found.trace_events:
            return (f"{device} no events in this range",)
        if "no_events" in found.reasons:
            return (f"{device} no events were recorded", "so its allocations aren't known")
        return (f"{device} no events",)
    over = f"in {counted(found.events, 'event')}"
    if found.duration_us:
        over += f" over {fine_duration(found.duration_us)}"
    total = found.total
    if total.count == 0:
        return (f"{device} no allocations", over)
    return (
        f"{device} {counted(total.count, 'allocation')} of {size(total.bytes)} {found.measure}",
        over,
    )


def _pairs(found: DeviceAllocations, report: AllocationsReport) -> tuple[tuple[str, str], ...]:
    pairs = [("measure", f"{found.measure}, {trust_label(found)}")]
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} only"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} only"))
    pairs += filter_pairs(report.filters)
    if found.events < found.trace_events:
        pairs.append(("range", range_text(found.first_event, found.events, found.trace_events)))
    if found.total.count:
        pairs += _number_pairs(found, report)
    if found.carried_over_count:
        before = "the range" if found.first_event else "the first event"
        blocks = f"{counted(found.carried_over_count, 'block')} of {size(found.carried_over_bytes)}"
        freed = _of_them(found.carried_over_freed_count, found.carried_over_freed_bytes)
        pairs.append(
            ("carried over", f"{blocks} from before {before}, not counted here; {freed} freed")
        )
    return tuple(pairs)


def _of_them(number: int, n_bytes: int) -> str:
    return f"{count(number)} ({size(n_bytes)})" if number else "none"


def _number_pairs(found: DeviceAllocations, report: AllocationsReport) -> list[tuple[str, str]]:
    total = found.total
    pairs = []
    if found.duration_us:
        seconds = found.duration_us / 1e6
        often, much = round(total.count / seconds), round(total.bytes / seconds)
        pairs.append(("rate", f"{counted(often, 'allocation')} and {size(much)} a second"))
    if found.peak_bytes:
        times = total.bytes / found.peak_bytes
        pairs.append(("turnover", f"{times:,.1f} times the peak of {size(found.peak_bytes)}"))
    pairs.append(("sizes", _spread(found)))
    pairs.append(("lifetimes", _lives(found)))
    pairs.append(("temporary", _temporary(total, report.temporary_threshold)))
    live = f"{count(total.live_count)} of {size(total.live_bytes)}" if total.live_count else "none"
    freed = count(total.count - total.live_count)
    pairs.append(("freed", f"{freed}; {live} still live at the end"))
    reused = total.count - found.new_segment_count
    pairs.append(
        ("reuse", f"{count(reused)} ({percent(reused / total.count)}) needed no new segment")
    )
    return pairs


def _temporary(total: AllocationSums, threshold: int) -> str:
    part = percent(share(total.temporary_count, total.count))
    when = "before the next allocation"
    if threshold:
        when = f"with at most {counted(threshold, 'other')} allocated in between"
    return f"{count(total.temporary_count)} ({part}) of {size(total.temporary_bytes)} freed {when}"


def _spread(found: DeviceAllocations) -> str:
    ends = f"{size(found.min_bytes or 0)} to {size(found.max_bytes or 0)}"
    return (
        f"{ends}, median {size(found.median_bytes or 0)}, mean {size(found.total.mean_bytes or 0)}"
    )


def _lives(found: DeviceAllocations) -> str:
    total = found.total
    if found.median_lifetime_events is None or total.mean_lifetime_events is None:
        return "none ended"
    events = counted(found.median_lifetime_events, "event")
    if found.median_lifetime_us is None or total.mean_lifetime_us is None:
        return f"median {events}, mean {count(total.mean_lifetime_events)}"
    median, mean = fine_duration(found.median_lifetime_us), fine_duration(total.mean_lifetime_us)
    return f"median {median} ({events}), mean {mean}"


# ---- histograms


class _Counted(NamedTuple):
    """Count and bytes of the allocations outside the classes."""

    count: int  # type: ignore[assignment]
    bytes: int


_Class = SizeClass | EventsClass | TimeClass | _Counted


def _sizes_table(found: DeviceAllocations) -> Table:
    """Build a table of sizes, from the smallest to the largest. Each row covers one or several
    powers of two.
    """
    numbers = {one.max_bytes.bit_length(): one for one in found.sizes}
    least, most = min(numbers), max(numbers)

    def rows_by(step: int) -> range:
        return range(_row_of(least, step), _row_of(most, step) + 1)

    step = next(step for step in _STEPS if len(rows_by(step)) <= _MOST_SIZES or step == _STEPS[-1])
    names = {row: size(1 << (row - 1) * step if row else 0) for row in rows_by(step)}
    merged = [
        (name, [one for number, one in numbers.items() if _row_of(number, step) == row])
        for row, name in names.items()
    ]
    return _histogram("sizes from", merged, found.total.count)


def _row_of(number: int, step: int) -> int:
    """Return a size class's row number if a row covers `step` classes. Size 0 has its own row."""
    return 1 + (number - 1) // step if number else 0


def _lifetimes_table(found: DeviceAllocations) -> Table:
    """Build a table of lifetimes, with a row per power of ten and one for unknown lifetimes."""
    in_us = found.lifetimes_us is not None
    numbers: dict[int, _Class]
    if found.lifetimes_us is None:
        numbers = {_digits(one.max_events): one for one in found.lifetimes_events}
    else:
        numbers = {_digits(one.max_us): one for one in found.lifetimes_us}
    rows = [
        (
            _lasting(10 ** (number - 1) if number else 0, in_us),
            [numbers[number]] if number in numbers else [],
        )
        for number in (range(min(numbers), max(numbers) + 1) if numbers else ())
    ]
    if found.lifetimes_us is not None and found.untimed_count:
        untimed = _Counted(found.untimed_count, found.untimed_bytes)
        rows.append(("not known", [untimed]))
    total = found.total
    if total.live_count:
        rows.append(("still live", [_Counted(total.live_count, total.live_bytes)]))
    return _histogram("lifetimes from", rows, total.count)


def _digits(number: int) -> int:
    return len(str(number)) if number else 0


def _lasting(number: int, in_us: bool) -> str:
    """Return text such as `10 us`, `100 ms`, `1,000 s` or `10 events`."""
    if not in_us:
        return counted(number, "event")
    for unit, length in (("s", 10**6), ("ms", 10**3)):
        if number >= length:
            return f"{count(number // length)} {unit}"
    return f"{number} us"


def _histogram(title: str, rows: Sequence[tuple[str, Sequence[_Class]]], whole: int) -> Table:
    """Build a table with a row per class: count, bytes and a bar.

    A row's label is the start of its class, so a row can also cover the empty classes that follow.
    """
    counts = [sum(one.count for one in classes) for _, classes in rows]
    most = max(counts)
    cells = []
    for at, ((name, classes), number) in enumerate(zip(rows, counts, strict=True)):
        if at and not number and not counts[at - 1]:
            continue
        n_bytes = sum(one.bytes for one in classes)
        numbers = (count(number), percent(share(number, whole)), size(n_bytes))
        if not number:
            numbers = ("-", "", "-")
        cells.append(Row((name, *numbers, Bar(number / most))))
    titles = (title, "count", "share", "bytes", "")
    return Table(titles, (*("right",) * 4, "left"), tuple(cells))


# ---- groups


def _groups_table(found: DeviceAllocations, report: AllocationsReport, all_frames: bool) -> Table:
    timed = found.lifetimes_us is not None
    rows = [
        group_row(one, report.by, all_frames=all_frames, more=_more(one, timed))
        for one in found.groups
    ]
    rows = distinguish_rows(rows, found.groups)
    left = found.groups_total - len(found.groups)
    if left:
        rest = found.rest
        numbers = (size(rest.bytes), percent(share(rest.bytes, found.total.bytes)))
        words = f"{counted(left, 'more group')} (--top 0 shows all)"
        more = _more(rest, timed)
        rows.append(Row((*numbers, count(rest.count), *more, words), style="dim"))
    life = "mean life" if timed else "mean events"
    titles = ("bytes", "share", "count", "mean size", "temporary", life)
    return Table(
        (*titles, "live", title_of(report.by)),
        (*("right",) * 7, "left"),
        tuple(rows),
        spare=(3, 6, 1),
    )


def _more(sums: AllocationSums | AllocationGroup, timed: bool) -> tuple[str, ...]:
    """Return a group's other columns: mean size, temporary allocations, mean lifetime, and
    allocations live at the end.
    """
    if timed:
        mean = sums.mean_lifetime_us
        lifetime = "-" if mean is None else fine_duration(mean)
    else:
        mean = sums.mean_lifetime_events
        lifetime = "-" if mean is None else count(mean)
    return (
        size(sums.mean_bytes or 0),
        count(sums.temporary_count) if sums.temporary_count else "-",
        lifetime,
        count(sums.live_count) if sums.live_count else "-",
    )
