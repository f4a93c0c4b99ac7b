"""Format the cards and the recordings that run now."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from memreplay.live.result import CardPart, LiveCard, LiveRecording, LiveReport, PartKind
from memreplay.render.document import (
    Align,
    Block,
    Document,
    Hue,
    Line,
    Note,
    Pairs,
    Picture,
    Row,
    Table,
)
from memreplay.render.fit import cut_right
from memreplay.render.recorded_holders import place_of
from memreplay.render.units import count, percent, size
from memreplay.texts import clean_short

NAME = 60  # maximum length of a name, in characters
SECOND = 1_000_000  # microseconds
LEAST_BAR = 20
MOST_BAR = 120
MOST_SPARK = 60  # width of the line over time
SPARKS: Mapping[bool, str] = {False: "▁▂▃▄▅▆▇█", True: "_.-=+*#@"}
OUTSIDE = "outside PyTorch: context, libraries"
UNLISTED = "the driver, and processes that it doesn't list"
OTHERS = "outside PyTorch: context, libraries, other processes"

# Each kind's mark, its ASCII version, and its colour. Marks differ without colours, too.
MARKS: Mapping[PartKind, tuple[str, str, Hue]] = {
    "allocated": ("█", "#", "hue6"),
    "unused": ("▓", "=", "hue1"),
    "outside": ("▒", "+", "hue4"),
    "process": ("░", "o", "hue2"),
    "rest": ("▚", "?", "hue5"),
    "free": ("·", ".", "dim"),
}


class Drawn(NamedTuple):
    """How to draw."""

    width: int
    plain: bool = False
    """Only with ASCII characters."""
    detail: Literal["all", "bars"] = "all"
    """Whether to list each card's parts."""
    chosen: int | None = None
    """The process whose recording is described."""
    history: Mapping[str, Sequence[int]] = {}
    """Each card's bytes in use, one number a second, by `key_of`."""


def key_of(card: LiveCard) -> str:
    """Return what identifies a card over time. Cards of dry runs may have the same id."""
    return f"{card.uuid} {card.recorded_pids if card.index is None else card.index}"


def live_document(report: LiveReport, drawn: Drawn) -> Document:
    """Return the cards, and below them the recordings."""
    blocks: list[Block] = []
    for card in report.cards:
        blocks += card_blocks(card, drawn)
    if report.cards_missing and report.cards:
        words = "the driver lists no cards, so only those of recorded programs are shown"
        blocks.append(Note(f"{words}: {report.cards_missing}"))
    return (*blocks, *recording_blocks(report, drawn.chosen))


# --- cards ----------------------------------------------------------------------------------------


def card_blocks(card: LiveCard, drawn: Drawn) -> list[Block]:
    """Return a card's bar, its use over time, and a row for each part."""
    used = card.total_bytes - card.free_bytes
    name = clean_short(card.name, NAME)
    title = f"card {card.index}: {name}"
    if card.index is None:
        process = f"pid {', '.join(map(str, card.recorded_pids))}"
        title = f"{'fake GPU' if card.is_dryrun else 'card'} {name} of {process}"
    words = f"{title}, {size(used)} of {size(card.total_bytes)} in use"
    lines: list[Line] = [((cut_right(words, drawn.width), "strong"),), bar(card, drawn)]
    lines += over_time(card, drawn)
    if drawn.detail == "all":
        lines += [part_line(card, one, drawn) for one in card.parts]
    blocks: list[Block] = [Picture(tuple(lines))]
    if card.processes_missing and drawn.detail == "all":
        why = clean_short(card.processes_missing, 4 * NAME)
        blocks.append(Note(f"other processes aren't listed: {why}"))
    return blocks


def mark(kind: PartKind, plain: bool) -> str:
    return MARKS[kind][plain]


def bar(card: LiveCard, drawn: Drawn) -> Line:
    """Return a line with as many marks of each part as its share."""
    width = max(min(drawn.width, MOST_BAR), LEAST_BAR)
    ends = accumulate(one.bytes for one in card.parts)
    edges = [0, *(round(end / card.total_bytes * width) for end in ends)]
    return tuple(
        (mark(one.kind, drawn.plain) * (end - begin), MARKS[one.kind][2])
        for one, begin, end in zip(card.parts, edges[:-1], edges[1:], strict=True)
        if end > begin
    )


def over_time(card: LiveCard, drawn: Drawn) -> list[Line]:
    """Return a line with the card's use over the last minutes; none without at least two."""
    values = drawn.history.get(key_of(card), ())
    if len(values) < 2:
        return []
    width = min(MOST_SPARK, len(values), max(drawn.width - 32, 5))
    edges = [len(values) * i // width for i in range(width + 1)]
    sparks = SPARKS[drawn.plain]
    text = "".join(
        sparks[min(max(values[a:b]) * len(sparks) // card.total_bytes, len(sparks) - 1)]
        for a, b in pairwise(edges)
    )
    words = f"  last {rounded(len(values) * SECOND)}, at most {size(max(values))}"
    return [((text, "plain"), (words, "dim"))]


def part_line(card: LiveCard, part: CardPart, drawn: Drawn) -> Line:
    share = percent(part.bytes / card.total_bytes)
    numbers = f"{size(part.bytes):>10}  {share:>6}  "
    words = cut_right(part_words(card, part), max(drawn.width - len(numbers) - 2, 10))
    return (
        (f"{mark(part.kind, drawn.plain)} ", MARKS[part.kind][2]),
        (numbers + words, "dim" if part.kind == "free" else "plain"),
    )


def part_words(card: LiveCard, part: CardPart) -> str:
    """Say what a part is."""
    if part.kind == "free":
        return "free"
    if part.kind == "rest":
        recorded = {one.pid for one in card.parts if one.kind == "allocated"}
        listed = {one.pid for one in card.parts if one.kind == "outside"}
        return OTHERS if recorded - listed else UNLISTED
    process = f"pid {part.pid} {clean_short(part.name, NAME)}".rstrip()
    if part.kind == "process":
        return process
    words = {
        "allocated": "allocated by PyTorch",
        "unused": "reserved by PyTorch, not allocated",
        "outside": OUTSIDE,
    }
    return f"{process}: {words[part.kind]}"


# --- recordings -----------------------------------------------------------------------------------


def recording_blocks(report: LiveReport, chosen: int | None) -> list[Block]:
    """Return a table of the recordings, and what the chosen one writes."""
    if not report.recordings:
        where = (
            "is running on this machine" if sys.platform == "linux" else "is listed: needs Linux"
        )
        return [Note(f"no recording of memreplay {where}")]
    ranks = any(one.rank is not None for one in report.recordings)
    titles = ["recording", *(["rank"] if ranks else []), "step", "device"]
    titles += ["allocated", "peak", "reserved", "peak", "program"]
    alone = report.recordings[0] if len(report.recordings) == 1 else None
    rows = [
        row
        for one in report.recordings
        for row in recording_rows(one, ranks, chosen=one.pid == chosen and alone is None)
    ]
    right = len(titles) - 1
    spare = (right - 1, right - 3, right - 5, right - 2, 1)
    aligns: list[Align] = ["right"] * right
    table = Table(tuple(titles), (*aligns, "left"), tuple(rows), spare, least=12)
    blocks: list[Block] = [table]
    for one in report.recordings:
        if one is alone or one.pid == chosen:
            blocks += details(one, report.time_us)
    return blocks


def recording_rows(one: LiveRecording, ranks: bool, *, chosen: bool) -> list[Row]:
    """Return a row for each device."""
    rank = [] if not ranks else ["-" if one.rank is None else str(one.rank)]
    head = [f"{'> ' if chosen else ''}pid {one.pid}", *rank, count(one.step_count)]
    name = clean_short(one.name, NAME)
    rows = []
    for device in one.devices:
        numbers = (
            size(device.allocated_bytes),
            size(device.allocated_peak_bytes),
            size(device.reserved_bytes),
            size(device.reserved_peak_bytes),
        )
        cells = (*head, str(device.device), *numbers, name)
        rows.append(Row(cells, style="strong" if chosen else "plain"))
    return rows or [Row((*head, *("-",) * 5, name))]


def rounded(us: int) -> str:
    """Return a time as `9 s`, `12 min` or `3 h 05 min`."""
    seconds = max(us, 0) // SECOND
    if seconds < 100:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def details(one: LiveRecording, now_us: int) -> list[Block]:
    """Return what a recording writes, and the holders in its last snapshot with holders."""
    kind = "dry run" if one.is_dryrun else "recording"
    when = "now and then" if one.is_continuous else "at its end"
    since = rounded(now_us - one.start_us)
    pairs = [(kind, f"pid {one.pid}, for {since}"), ("writes", f"{one.file}, {when}")]
    if one.last_file:
        ago = rounded(now_us - one.last_us)
        pairs.append(("wrote", f"{one.last_file}, {ago} ago"))
    if one.is_dumping:
        pairs.append(("now", "it's writing a snapshot, once its main thread runs Python code"))
    blocks: list[Block] = [Pairs(tuple(pairs))]
    if one.holders:
        rows = [Row((size(held.bytes), count(held.count), place_of(held))) for held in one.holders]
        titles = ("bytes", "count", "held by, in its last snapshot with holders")
        blocks.append(Table(titles, ("right", "right", "left"), tuple(rows)))
    return blocks
