"""Ticks at round numbers below and beside the curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memreplay.render.axes import byte_ticks, elapsed_ticks, event_ticks
from memreplay.render.fit import cell_width

if TYPE_CHECKING:
    from memreplay.explore.explored import Explored
    from memreplay.explore.look import Look

APART = 16  # cells between ticks


def column_ticks(explored: Explored, look: Look, columns: int, cells: int) -> list[tuple[int, str]]:
    """Return columns and their labels: event numbers or times."""
    replay = explored.replay(look)
    if not replay.events:
        return []
    most = max(cells // APART, 1)
    first = max(look.first, replay.first_event)
    if look.axis == "time" and replay.clock is not None:
        origin, base = replay.origin_us or 0, replay.first_event
        begin, end = replay.clock[first - base], replay.clock[look.last - base]
        wide = end - begin + 1
        times = elapsed_ticks(end - origin, most, begin - origin)
        return [(int(one.at + origin - begin) * columns // wide, one.label) for one in times]
    found = [
        (explored.column(look, columns, int(one.at)), one.label)
        for one in event_ticks(first, look.last + 1, most)
    ]
    if look.first == replay.start:
        found = [(0, "start"), *(one for one in found if one[0] > 0)]
    return found


def tick_line(ticks: Sequence[tuple[int, str]], cells: int, sign: str) -> str:
    """Return a line with as many labels as fit, beside signs in the ticks' cells."""
    line, free = "", 0
    for cell, label in ticks:
        begin, text = cell, f"{sign}{label}"
        if begin + cell_width(text) > cells:
            begin, text = cell - cell_width(label), f"{label}{sign}"
        if begin >= free:
            line = f"{line:<{begin}}{text}"
            free = begin + cell_width(text) + 2
    return f"{line:<{cells}}"


def row_labels(low: int, high: int, rows: int) -> dict[int, str]:
    """Return labels by row, counted from the top, for bytes between two values.

    A label is in the row whose lower edge is nearest.
    """
    labels: dict[int, str] = {}
    for tick in byte_ticks(low, high, max(rows // 2, 3)):
        at = min(max(int((tick.at - low) * rows / (high - low) + 0.499), 0), rows - 1)
        labels.setdefault(rows - 1 - at, tick.label)
    return labels
