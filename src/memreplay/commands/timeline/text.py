"""Format measures over events as text: a plot and its legend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple, cast

from memreplay.analysis.groups.ways import title_of
from memreplay.analysis.moments.records import OutOfMemory
from memreplay.commands.timeline.axis import Axis
from memreplay.commands.timeline.result import Marks, Series, TimelineReport
from memreplay.render import picture
from memreplay.render.axes import byte_ticks
from memreplay.render.document import (
    Block,
    Document,
    Heading,
    Hue,
    Line,
    Note,
    Pairs,
    Picture,
    Place,
    Row,
    Table,
)
from memreplay.render.filters import NOTHING_LEFT, filter_pairs
from memreplay.render.fit import cell_width, cut_right
from memreplay.render.headline import peak_phrases
from memreplay.render.holders import distinguish_rows, group_row, share
from memreplay.render.layout import MIN_WIDTH
from memreplay.render.reasons import reason_notes
from memreplay.render.trust import trust_label
from memreplay.render.units import (
    count,
    counted,
    percent,
    range_text,
    signed_duration,
    size,
)
from memreplay.snapshot.model import Span
from memreplay.texts import clean

MOST_WIDTH = 300
MARGIN = 12  # maximum width of the y axis, in cells
MARKS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
REST = "."
LANES = 3  # maximum number of rows for nested annotations
SHOWN = 6  # maximum number of annotations and of OOM events to list
HUES = 6


def text_points(width: int) -> int:
    """Return the number of buckets that a plot of this width can show."""
    # Use several buckets per column of dots, because the width of the axis labels isn't known yet,
    # and a bucket that spans two columns is drawn in both.
    return 8 * (_wide(width) - MARGIN)


def _wide(width: int) -> int:
    return max(min(width, MOST_WIDTH), MIN_WIDTH)


def timeline_document(report: TimelineReport, width: int, *, absolute: bool = False) -> Document:
    """Build a plot per device (with layers: per measure), all with a common x axis."""
    blocks: list[Block] = [Heading((Place(file=report.file),))]
    if not report.devices:
        blocks.append(Note("nothing to show: the file has neither events nor segments"))
    axis = Axis.of(report, absolute)
    marks = {one.device: one for one in report.marks}
    for device, every in groupby(report.devices, key=lambda series: series.device):
        found = list(every)
        for shown in [[one] for one in found] if report.by else [found]:
            blocks += _section(shown, marks[device], report, axis, _wide(width))
        blocks += _marks_notes(marks[device], found[0])
        said = frozenset(("no_events",))
        reasons = tuple(dict.fromkeys(name for one in found for name in one.reasons))
        trusted = all(one.trusted for one in found)
        blocks += reason_notes(reasons, trusted=trusted, backend=found[0].backend, said=said)
    return tuple(blocks)


def _section(
    found: list[Series], marks: Marks, report: TimelineReport, axis: Axis, width: int
) -> list[Block]:
    if not any(one.events for one in found):
        return [Heading((_still(found),))]
    low = min(0, *(one.lowest_bytes for one in found))
    high = max(low + 1, *(one.peak_bytes for one in found))
    rows = min(max(width // 7, 8), 20)
    y_ticks = byte_ticks(low, high, rows // 3)
    wide = width - max(len(tick.label) for tick in y_ticks) - 2
    cells = _drawn(found, axis, _Frame(low, high, wide, rows), stacked=bool(report.by))
    lines, margin = picture.framed(cells, y_ticks, low, high)
    places = [
        (axis.column(int(tick.at), wide), tick.label) for tick in axis.ticks(max(wide // 16, 2))
    ]
    lines += picture.foot(places, wide, margin)
    lines += _mark_lines(marks, found[0], axis, wide, margin)
    blocks: list[Block] = [Heading(_headline(found))]
    blocks.append(Pairs(_pairs(found, report, axis.words(wide))))
    if report.filters and not any(one.peak_bytes for one in found):
        blocks.append(Note(NOTHING_LEFT))
        return blocks
    blocks.append(Picture(tuple(lines)))
    if report.by is not None:
        blocks += _layer_table(found[0], report)
    elif len(found) > 1:
        blocks.append(_measures_table(found))
    return blocks


def _still(found: list[Series]) -> str:
    one = found[0]
    high = ", ".join(f"{size(series.peak_bytes)} {series.measure}" for series in found)
    if one.trace_events:
        return f"device {one.device}: no events in this range; {high} there"
    if "no_events" in one.reasons:
        return f"device {one.device}: no events were recorded; {high} in the final state"
    return f"device {one.device}: no events; {high} all along"


def _headline(found: list[Series]) -> tuple[str, ...]:
    one = found[0]
    if len(found) == 1:
        return peak_phrases(f"{size(one.peak_bytes)} {one.measure}", one)
    names = ", ".join(series.measure for series in found)
    return (f"device {one.device}: {names}",)


def _pairs(
    found: list[Series], report: TimelineReport, x_words: str
) -> tuple[tuple[str, str], ...]:
    one = found[0]
    pairs = []
    if len(found) == 1:
        pairs.append(("measure", f"{one.measure}, {trust_label(one)}"))
    else:
        labels = [trust_label(series) for series in found]
        for label in dict.fromkeys(sorted(labels, key=lambda one: not one.startswith("exact"))):
            names = [one.measure for one, own in zip(found, labels, strict=True) if own == label]
            pairs.append((label, ", ".join(names)))
    if report.pool is not None:
        pairs.append(("pool", f"{report.pool[0]}:{report.pool[1]} only"))
    if report.stream is not None:
        pairs.append(("stream", f"{report.stream} only"))
    pairs += filter_pairs(report.filters)
    if one.events < one.trace_events:
        pairs.append(("range", range_text(one.first_event, one.events, one.trace_events)))
    if len(found) == 1:
        ends = f"start {size(one.start_bytes)}, lowest {size(one.lowest_bytes)}"
        pairs.append(("bytes", f"{ends}, end {size(one.end_bytes)}"))
    if outside := _outside(one):
        pairs.append(("outside", outside))
    pairs.append(("across", x_words))
    return tuple(pairs)


def _outside(one: Series) -> str:
    """Return the range of memory outside PyTorch's allocator; "" if it wasn't measured."""
    pairs = list(zip(one.outside_bytes or (), one.other_bytes or (), strict=True))
    known = [(own, other) for own, other in pairs if other is not None]
    # Samples that don't know other processes include them.
    found = [own for own, _ in known or pairs if own is not None]
    if not found:
        return ""
    words = f"{_range(found)} of the card outside PyTorch's allocator"
    if not known:
        return f"{words}, including other processes"
    return f"{words}, {_range([other for _, other in known])} in other processes"


def _range(found: list[int]) -> str:
    low, high = size(min(found)), size(max(found))
    return high if low == high else f"{low} to {high}"


class _Frame(NamedTuple):
    """A plot's range in bytes, and its size in characters."""

    low: int
    high: int
    wide: int
    rows: int


def _drawn(found: list[Series], axis: Axis, frame: _Frame, *, stacked: bool) -> picture.Cells:
    low, high, wide, rows = frame
    start, whole = axis.start, axis.whole
    across = 1 if stacked else 2  # dots per character
    drawn = [
        picture.columns(
            picture.Buckets(axis.edges(one), one.buckets.min_bytes, one.buckets.max_bytes),
            start,
            whole,
            across * wide,
        )
        for one in found
    ]
    if stacked:
        rests = found[0].layers[len(MARKS) :]
        heaps = [
            None
            if column is None
            else [
                *(layer.bytes[column.bucket] for layer in found[0].layers[: len(MARKS)]),
                sum(layer.bytes[column.bucket] for layer in rests) + found[0].rest[column.bucket],
            ]
            for column in drawn[0]
        ]
        n = min(len(found[0].layers), len(MARKS))
        marks, hues = MARKS[:n] + REST, [*(_area(i) for i in range(n)), "area0"]
        return picture.stack(heaps, high, rows, marks, hues)
    if len(found) == 1:
        return picture.area(drawn[0], low, high, rows, _hue(0))
    return picture.overlay(
        picture.line(columns, low, high, rows, picture.Pen(_hue(i), str(i + 1), i))
        for i, columns in enumerate(drawn)
    )


def _hue(i: int) -> Hue:
    return cast(Hue, f"hue{i % HUES + 1}")


def _area(i: int) -> Hue:
    return cast(Hue, f"area{i % HUES + 1}")


def _measures_table(found: list[Series]) -> Table:
    titles = ("line", "measure", "peak", "at event", "start", "lowest", "end")
    rows = tuple(
        Row(
            (
                str(number),
                one.measure,
                size(one.peak_bytes),
                "start" if one.peak_event < one.first_event else count(one.peak_event),
                size(one.start_bytes),
                size(one.lowest_bytes),
                size(one.end_bytes),
            )
        )
        for number, one in enumerate(found, 1)
    )
    return Table(titles, ("left", "left", *("right",) * 5), rows)


def _layer_table(series: Series, report: TimelineReport) -> list[Block]:
    """Build a table with a row per layer: its letter, its own peak, and its bytes at the overall
    peak.
    """
    by = report.by
    assert by is not None
    rows = []
    for i, layer in enumerate(series.layers):
        mark = MARKS[i] if i < len(MARKS) else REST
        row = group_row(layer.group, by, all_frames=False)
        below = row.below[:1] if by == "stack" else ()
        numbers = (size(layer.peak_bytes), *row.cells[:2])
        rows.append(Row((mark, *numbers, row.cells[-1]), below, row.style))
    rows = distinguish_rows(rows, [layer.group for layer in series.layers])
    rest = series.peak_bytes - sum(layer.group.bytes for layer in series.layers)
    more = (series.groups_total or 0) - len(series.layers)
    if any(series.rest):
        words = f"all else: {counted(more, 'more group')} (--top 0 shows all)"
        rest_numbers = ("", size(rest), percent(share(rest, series.peak_bytes)))
        rows.append(Row((REST, *rest_numbers, words), style="dim"))
    titles = ("", "at most", "at the peak", "share", title_of(by))
    return [Table(titles, ("left", "right", "right", "right", "left"), tuple(rows))]


# ---- annotations and failed requests


def _mark_lines(marks: Marks, series: Series, axis: Axis, wide: int, margin: int) -> Iterator[Line]:
    """Return lines for nested annotations and for OOM events."""
    lanes: list[list[str]] = []
    open_until: list[int] = []
    for span in marks.annotations:
        begin, end = axis.extent(span, series)
        # An annotation that outlasts another isn't nested in it, even if it begins at the event
        # where the other ends.
        while open_until and (open_until[-1] <= begin or open_until[-1] < end):
            open_until.pop()
        lane = len(open_until)
        open_until.append(end)
        if lane >= LANES:
            continue
        while lane >= len(lanes):
            lanes.append([" "] * wide)
        _put(lanes[lane], axis.column(begin, wide), axis.column(max(begin, end - 1), wide), span)
    for cells in lanes:
        yield ((" " * margin + "".join(cells).rstrip(), "dim"),)
    if marks.ooms:
        cells = [" "] * wide
        for oom in marks.ooms:
            cells[axis.column(axis.at(oom, series), wide)] = "▲"
        yield ((" " * margin + "".join(cells).rstrip(), "warning"),)


def _put(cells: list[str], first: int, last: int, span: Span) -> None:
    """Write `[name──]` if there's room, otherwise `[]` or `|`."""
    room = last - first - 1
    if room < 0:
        cells[first] = "|"
        return
    name = cut_right(clean(span.name), room) if room > 1 else ""
    # A wide character takes two cells, so add an empty entry after it.
    middle = [*name, *([""] * (cell_width(name) - len(name)))]
    middle += ["─"] * (room - len(middle))
    cells[first : last + 1] = ["[", *middle[:room], "]"]


def _marks_notes(marks: Marks, series: Series) -> list[Note]:
    notes = []
    if marks.annotations:
        # Count names as shown, because shortened names that only differ at the end look the same.
        times = Counter(cut_right(clean(span.name), 40) for span in marks.annotations)
        shown = [
            name + (f" ({count(n)} times)" if n > 1 else "")
            for name, n in list(times.items())[:SHOWN]
        ]
        more = f" and {counted(len(times) - SHOWN, 'more name')}" if len(times) > SHOWN else ""
        notes.append(Note(f"annotations: {', '.join(shown)}{more}"))
    if marks.ooms:
        events = ", ".join(_when(oom, series) for oom in marks.ooms[:SHOWN])
        more = f" and {count(len(marks.ooms) - SHOWN)} more" if len(marks.ooms) > SHOWN else ""
        where = "event" if len(marks.ooms) == 1 else "events"
        notes.append(Note(f"out of memory (▲) at {where} {events}{more}"))
    return notes


def _when(oom: OutOfMemory, series: Series) -> str:
    event = count(oom.event_index)
    if oom.time_us is None or series.start_us is None:
        return event
    return f"{event} ({signed_duration(oom.time_us - series.start_us)})"
