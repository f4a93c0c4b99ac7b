"""Format the live set at a moment as text."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET

from memreplay.analysis.code.naming import name_of_frame
from memreplay.analysis.moments.records import DeviceAnnotations
from memreplay.commands.at.result import AtReport, DeviceAt, FoundAllocation, LiveAllocation, Stack
from memreplay.render.calltree import tree_table
from memreplay.render.caught import caught_blocks, caught_text
from memreplay.render.document import (
    Block,
    Document,
    Heading,
    Note,
    Pairs,
    Place,
    Row,
    Table,
)
from memreplay.render.filters import NOTHING_LEFT, filter_pairs
from memreplay.render.fit import cut_right
from memreplay.render.headline import moment_phrases
from memreplay.render.holders import coded_row, holder_tables, one_line, share
from memreplay.render.reasons import notes_of
from memreplay.render.trust import trust_label
from memreplay.render.units import (
    count,
    counted,
    duration,
    percent,
    range_text,
    signed_duration,
    size,
    time_utc,
)
from memreplay.snapshot.model import When
from memreplay.texts import clean

DEEPEST = 20  # maximum indentation level
LONGEST = 80  # maximum length of an annotation's name, in characters


def at_document(report: AtReport, *, all_frames: bool = False) -> Document:
    """Build a section per device and moment: bytes, groups, allocations.

    `all_frames`: show full stacks.
    """
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices and not report.annotations:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    for found in report.devices:
        blocks += _section(found, report, all_frames)
    for device in report.annotations or ():
        blocks += _stages(device, report)
    blocks += [Note(text) for text in report.missing]
    return tuple(blocks)


def _stages(found: DeviceAnnotations, report: AtReport) -> list[Block]:
    """Build a table with a line per annotation. Nested annotations are indented."""
    shown = counted(found.annotations_total, "annotation")
    blocks: list[Block] = [
        Heading((f"device {found.device}: {found.measure} at {shown}",)),
        Pairs(
            (
                ("measure", f"{found.measure}, {trust_label(found)}"),
                *part_pairs(report),
                *filter_pairs(report.filters),
                ("peak", size(found.peak_bytes)),
            )
        ),
    ]
    rows = [
        Row(
            (
                signed_duration(one.start_us - (found.start_us or 0)),
                "no end" if one.end_us is None else duration(one.end_us - one.start_us),
                _known(one.start_bytes),
                size(one.peak_bytes),
                _known(one.end_bytes),
                "  " * min(one.depth, DEEPEST) + cut_right(clean(one.name), LONGEST),
            )
        )
        for one in found.annotations
    ]
    if len(rows) < found.annotations_total:
        left = f"{count(found.annotations_total - len(rows))} more, none higher (--top 0 shows all)"
        rows.append(Row((*("",) * 5, left), style="dim"))
    titles = ("begins", "lasts", "at start", "peak within", "at end", "annotation")
    if rows:
        blocks.append(Table(titles, (*("right",) * 5, "left"), tuple(rows)))
    else:
        blocks.append(Note("no annotations"))
    return [*blocks, *notes_of(found)]


def _known(n_bytes: int | None) -> str:
    return "-" if n_bytes is None else size(n_bytes)


def headlines(report: AtReport) -> Document:
    """Return the headline for each moment and device."""
    return tuple(Heading(_headline(found)) for found in report.devices)


def _section(found: DeviceAt, report: AtReport, all_frames: bool) -> list[Block]:
    blocks: list[Block] = [Heading(_headline(found)), Pairs(_pairs(found, report))]
    if report.filters and not found.peak_bytes:
        blocks.append(Note(NOTHING_LEFT))
    if found.tree is UNSET:
        blocks += holder_tables(found, found.live_bytes, report.by, all_frames=all_frames)
    else:
        blocks += tree_table(found.tree, found.live_bytes)
    if found.caught is not UNSET:
        blocks += caught_blocks(found.caught, found.live_bytes, all_frames=all_frames)
    if found.held_by is not UNSET:
        from memreplay.render.recorded_holders import live_holder_blocks  # imported late

        blocks += live_holder_blocks(found.held_by, found.live_bytes)
    if found.allocations and found.stacks:
        blocks.append(_allocations_table(found, found.allocations, found.stacks, all_frames))
    return [*blocks, *notes_of(found)]


def _headline(found: DeviceAt) -> tuple[str, ...]:
    live = f"device {found.device}: {size(found.live_bytes)} {found.measure}"
    if found.events == 0:
        return (f"{live} in the final state", "no events were recorded")
    return moment_phrases(live, found, "after")


def _pairs(found: DeviceAt, report: AtReport) -> tuple[tuple[str, str], ...]:
    pairs = [
        ("moment", when_text(found.moment)),
        ("measure", f"{found.measure}, {trust_label(found)}"),
    ]
    pairs += part_pairs(report)
    pairs += filter_pairs(report.filters)
    if found.events < found.trace_events:
        words = range_text(found.first_event, found.events, found.trace_events)
        pairs.append(("range", words))
    if found.allocation is not UNSET:
        pairs += _life_pairs(found.allocation)
    part = percent(share(found.live_bytes, found.peak_bytes))
    pairs.append(("peak", f"{size(found.peak_bytes)}, of which this is {part}"))
    if found.measure != "reserved":
        pairs.append(("live", counted(found.live_count, "block")))
    if found.caught is not UNSET:
        pairs.append(("categories", caught_text(found.caught)))
    return tuple(pairs)


def _life_pairs(one: FoundAllocation) -> list[tuple[str, str]]:
    """Describe the allocation at an address: size, lifetime, call site."""
    there = f"{size(one.bytes)} at 0x{one.address:x}"
    if one.total > 1:
        there += f", #{count(one.number)} of {counted(one.total, 'allocation')} with this address"
    begins = "from before the recording" if one.alloc_event is None else "from event "
    if one.alloc_event is not None:
        begins += count(one.alloc_event)
    if one.free_event is None:
        lived = f"{begins} to the end"
    else:
        lived = f"{begins} to event {count(one.free_event)}"
        if one.alloc_us is not None and one.free_us is not None:
            lived += f", {duration(max(one.free_us - one.alloc_us, 0))}"
        elif one.alloc_event is not None:
            lived += f", {counted(one.free_event - one.alloc_event, 'event')}"
    pairs = [("block", there), ("lifetime", lived), ("allocated at", one.label)]
    if one.freed_at is not None:
        at = name_of_frame(one.freed_at)
        pairs.append(("freed at", f"{at.function}  {at.place}".strip()))
    return pairs


def part_pairs(report: AtReport) -> list[tuple[str, str]]:
    """Return the selected pool and stream."""
    pairs = []
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} only"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} only"))
    return pairs


def when_text(when: When) -> str:
    """Describe a moment."""
    if when.kind == "event":
        return f"event {count(when.value)}"
    if when.kind == "elapsed":
        return f"{signed_duration(when.value)} after the first event"
    if when.kind == "time":
        return time_utc(when.value)
    if when.kind == "peak":
        return "the peak" if when.value == 1 else f"separate peak {when.value}, by height"
    if when.kind in ("annotation", "step"):
        edge = {"start": "start of", "end": "end of", "peak": "peak within"}[when.edge or "start"]
        if when.kind == "annotation":
            return f"{edge} annotation {when.name}"
        return f"{edge} the last step" if when.value == -1 else f"{edge} step {when.value}"
    if when.kind == "oom":
        return "the first failed request" if when.value == 1 else f"failed request {when.value}"
    if when.kind == "time_of_day":
        return f"{time_utc(when.value).partition(' ')[2]} on the recording's day"
    if when.kind == "address":
        if when.name and when.name.startswith("_"):
            return f"b{when.value:x}{when.name} of PyTorch's viewer is allocated"
        return f"address 0x{when.value:x} is allocated" + (f", #{when.name}" if when.name else "")
    return {"start": "the start", "end": "the end"}[when.kind]


def _allocations_table(
    found: DeviceAt,
    allocations: tuple[LiveAllocation, ...],
    stacks: tuple[Stack, ...],
    all_frames: bool,
) -> Table:
    """Build a table with a line per allocation. Show streams and pools only if some aren't the
    default.
    """
    titles: tuple[str, ...] = ("bytes", "address", "age", "freed at")
    several = [
        ("stream", any(one.stream not in (0, None) for one in allocations)),
        ("pool", any(one.pool not in ((0, 0), None) for one in allocations)),
    ]
    titles += tuple(name for name, shown in several if shown)
    rows = []
    shapes: dict[int, Row] = {}
    for one in allocations:
        numbers = {
            "bytes": size(one.bytes),
            "address": f"0x{one.address:x}",
            "age": _age(one),
            "freed at": "never" if one.free_event is None else count(one.free_event),
            "stream": "-" if one.stream is None else str(one.stream),
            "pool": "-" if one.pool is None else f"{one.pool[0]}:{one.pool[1]}",
        }
        if one.stack not in shapes:
            shapes[one.stack] = _stack_row(stacks[one.stack], all_frames)
        rows.append(
            _allocation_row(tuple(numbers[title] for title in titles), one, shapes[one.stack])
        )
    left = found.live_count - len(allocations)
    if left:
        rest = found.live_bytes - sum(one.bytes for one in allocations)
        empty = ("",) * (len(titles) - 1)
        rows.append(
            Row((size(rest), *empty, f"{count(left)} more (--top 0 shows all)"), style="dim")
        )
    aligns: list[Literal["left", "right"]] = ["right"] * len(titles)
    return Table((*titles, "allocated at"), (*aligns, "left"), tuple(rows))


def _age(one: LiveAllocation) -> str:
    if one.alloc_event is None:
        return "before"
    if one.age_us is not None:
        return duration(one.age_us)
    return counted(one.age_events or 0, "event")


def _stack_row(stack: Stack, all_frames: bool) -> Row:
    """Return a row with a stack's location, and its callers below."""
    row = coded_row((), stack, "stack", all_frames=all_frames)
    return row if all_frames else one_line(row)


def _allocation_row(numbers: tuple[str, ...], one: LiveAllocation, row: Row) -> Row:
    below = row.below
    if one.freed_at is not None:
        at = name_of_frame(one.freed_at)
        below = (*below, (Place(f"freed: {at.function}", at.file, at.line), "dim"))
    return Row((*numbers, *row.cells), below, row.style)
