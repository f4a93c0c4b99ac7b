"""Format the notes on which Python objects held the memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.groups.ways.blocks import pool_label
from memreplay.render.document import Below, Block, Heading, Note, Place, Row, Style, Table
from memreplay.render.units import count, counted, duration, percent, size
from memreplay.snapshot.recorded_holders import LONGEST, HeldBy, Holder, LookedWhen, RecordedHolders
from memreplay.texts import clean_short

if TYPE_CHECKING:
    from memreplay.analysis.groups.holding import LiveHolder, LiveHolders

SHOWN = 5
MUCH = 0.2  # share of a group's bytes
NOT_RECORDED = (
    "the file doesn't say which objects held this memory; record with memreplay record --holders"
)
_INCOMPLETE = Note("the recorder stopped looking after a while, so some holders weren't found")
_WHEN: dict[LookedWhen, str] = {
    "end": "when this was written",
    "oom": "when memory first ran out",
}
_DIM: Style = "dim"


def holder_blocks(found: RecordedHolders | None, shown: int = SHOWN) -> list[Block]:
    """Return a table of the holders; nothing if they weren't recorded."""
    if found is None or not found.total_bytes:
        return []
    rows = [_row(one, found.total_bytes) for one in found.groups[:shown]]
    rest = len(found.groups[shown:]) + found.other_groups
    if rest:
        left = found.total_bytes - sum(one.bytes for one in found.groups[:shown])
        cells = (size(left), percent(left / found.total_bytes), "", counted(rest, "more holder"))
        rows.append(Row(cells, style="dim"))
    blocks: list[Block] = [
        Heading((f"{size(found.total_bytes)} in use {_WHEN[found.when]}", "by holder")),
        _holders_table(rows),
        *_pools(found),
        *_pinned(found),
    ]
    return blocks if found.complete else [*blocks, _INCOMPLETE]


def live_holder_blocks(found: LiveHolders | None, whole: int) -> list[Block]:
    """Return a table of who held `whole` bytes, and when the recorder looked."""
    if found is None:
        return [Note(NOT_RECORDED)]
    if not whole:
        return []
    rows = [
        Row((size(one.bytes), percent(one.bytes / whole), count(one.count), place_of(one)))
        for one in found.groups
    ]
    for n_bytes, number, words in (
        (found.other_bytes, "", counted(found.other_groups, "more holder")),
        (found.freed_bytes, count(found.freed_count), "freed before the recorder looked"),
        (
            found.allocated_after_bytes,
            count(found.allocated_after_count),
            "allocated after the recorder looked",
        ),
        (found.unknown_bytes, "", "not recorded"),
    ):
        if n_bytes:
            rows.append(Row((size(n_bytes), percent(n_bytes / whole), number, words), style="dim"))
    blocks: list[Block] = [_holders_table(rows)]
    if found.after_events:
        blocks.append(Note(_when(found)))
    return blocks if found.complete else [*blocks, _INCOMPLETE]


def _when(found: LiveHolders) -> str:
    """Return when the recorder looked, relative to another moment."""
    after = counted(abs(found.after_events), "event")
    if found.after_us:
        after += f" and {duration(abs(found.after_us))}"
    after += " later" if found.after_events > 0 else " earlier"
    return (
        f"the recorder looked {after}, {_WHEN[found.when]}; at the moment shown here, another"
        " object may have held this memory"
    )


def held_by_lines(holders: Sequence[LiveHolder], whole: int) -> Below:
    """Return a line for each object that holds much of a group's `whole` bytes."""
    return tuple(
        (replace(place_of(one), function=f"held by {one.words}"), _DIM)
        for one in holders
        if one.bytes >= MUCH * whole
    )


def place_of(one: Holder) -> Place:
    """Return a holder and its place in the code."""
    return Place(one.words, one.file, one.line)


def _holders_table(rows: Sequence[Row]) -> Table:
    titles = ("bytes", "share", "count", "held by")
    return Table(titles, ("right", "right", "right", "left"), tuple(rows), spare=(2,))


def _pools(found: RecordedHolders) -> list[Block]:
    """Return a table of the private pools that aren't in use."""
    rows = [
        Row((size(one.bytes), pool_label(one.pool), place_of(one))) for one in found.pools[:SHOWN]
    ]
    titles = ("not in use", "pool", "held by")
    return [Table(titles, ("right", "left", "left"), tuple(rows), spare=(1,))] if rows else []


def _pinned(found: RecordedHolders) -> list[Block]:
    """Return a table of the holders of pinned memory."""
    rows = [Row((size(one.bytes), count(one.count), place_of(one))) for one in found.pinned[:SHOWN]]
    titles = ("pinned on the host", "count", "held by")
    return [Table(titles, ("right", "right", "left"), tuple(rows))] if rows else []


def _row(one: HeldBy, total: int) -> Row:
    details: list[str] = []
    if one.kind == "cycle":
        details.append("gc.collect() would free it")
    if one.autograd_bytes:
        nodes = ", ".join(clean_short(node, LONGEST) for node in one.nodes)
        details.append(f"{size(one.autograd_bytes)} saved for a backward pass: {nodes}")
    if one.small_views:
        views = "a small view keeps" if one.small_views == 1 else "small views keep"
        details.append(f"{views} the whole allocation")
    below = tuple((Place(detail), _DIM) for detail in details)
    numbers = (size(one.bytes), percent(one.bytes / total), count(one.count))
    return Row((*numbers, place_of(one)), below)
