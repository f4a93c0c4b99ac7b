"""Segments and their blocks, formatted when visible."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.groups.mapped import pool_of
from memreplay.analysis.groups.ways.blocks import pool_label, stream_label
from memreplay.engine.query import _blockmap
from memreplay.explore.rows.row import (
    FIRST_ROWS,
    MOST_ROWS,
    Line,
    Shown,
    Tone,
    frame_texts,
    named_line,
    named_shown,
)
from memreplay.render.units import count, counted, size

if TYPE_CHECKING:
    from memreplay.explore.rows.allocations import Allocations
    from memreplay.snapshot.model import Group

LEAST_CELLS, MOST_CELLS = 8, 30  # width of a segment's bar
OTHER_CELLS = 52  # width of the rest of a segment's row
REST = -1  # represents all blocks that are left out
TONES: dict[str, Tone] = {".": "fell", "~": "dim"}  # of a bar's cells; others are in use
STATES = {
    _blockmap.FREE: "free",
    _blockmap.IN_USE: "in use",
    _blockmap.PENDING: "pending",
}


def _coloured(bar: str) -> tuple[tuple[str, Tone], ...]:
    """Return a bar in which free memory is blue, like decreases."""
    runs = groupby(bar + "  ", lambda one: TONES.get(one, "rose"))
    return tuple(("".join(run), tone) for tone, run in runs)


class Block(NamedTuple):
    """A block in a segment: in use, pending or free."""

    address: int
    size: int
    requested: int
    state: str
    owner: int  # its allocation: an alloc event, or CARRIED plus the number of a carried-over block

    @property
    def carried(self) -> bool:
        return self.owner >= _blockmap.CARRIED

    @property
    def allocation(self) -> int:
        """The number that identifies this allocation in Allocations."""
        return self.owner & ~_blockmap.CARRIED


class SegmentRows:
    """The segments after an event, most free bytes first.

    Expanded segments (identified by address) show their blocks in address order. `allocations` are
    those of the measure `active`.
    """

    titles: tuple[str, ...] = ("size", "in use", "free")

    def __init__(self, allocations: Allocations, opened: set[int], most: int = FIRST_ROWS) -> None:
        self.allocations, self.opened = allocations, opened
        self.most, self.cells = most, MOST_CELLS
        self.replay = allocations.replay
        self.map = self.replay.block_map(allocations.event)
        self.order = self.map.largest(0)
        self.note = "" if self.order else "no segments were reserved"
        # A segment, and the number of its block; None for the segment itself, REST for omitted
        # blocks.
        self.visible: list[tuple[int, int | None]] = []
        self._columns: list[memoryview] = []
        self._rests: dict[int, dict[str, int]] = {}
        self.unfold()

    def fit(self, width: int) -> None:
        """Let the bars take the room that the numbers and addresses leave."""
        self.cells = min(max(width - OTHER_CELLS, LEAST_CELLS), MOST_CELLS)

    def unfold(self) -> None:
        """Compute the visible rows."""
        if not self.opened:
            self.visible = [(segment, None) for segment in self.order]
            return
        self.visible = []
        for segment in self.order:
            self.visible.append((segment, None))
            address, *_, first, tiles, _ = self.map.segment(segment)
            if address in self.opened:
                shown = min(tiles, self.most)
                self.visible += [(segment, first + i) for i in range(shown)]
                if tiles > shown:
                    self.visible.append((segment, REST))

    def toggle(self, row: int) -> None:
        """Expand or collapse a row's segment."""
        segment, part = self.visible[row]
        if part is None:
            self.opened ^= {self.map.segment(segment)[0]}
            self.unfold()

    def is_rest(self, row: int) -> bool:
        """Return whether a row represents omitted blocks."""
        return self.visible[row][1] == REST

    def block(self, number: int) -> Block:
        """Return a block of the map."""
        if not self._columns:
            names = ("address", "size", "requested", "state", "owner")
            self._columns = [memoryview(self.map.tiles(name)) for name in names]
        address, n_bytes, requested, state, owner = (one[number] for one in self._columns)
        return Block(address, n_bytes, requested, STATES[state], owner)

    def rest(self, segment: int) -> dict[str, int]:
        """Sum the omitted blocks: `blocks`, and bytes as `size`, `in use`, `pending`, `free`,
        `requested`.
        """
        if segment in self._rests:
            return self._rests[segment]
        *_, first, tiles, sums = self.map.segment(segment)
        found = {"blocks": tiles - self.most, "size": sums["size"], "requested": sums["requested"]}
        found |= {"in use": sums["in_use"], "pending": sums["pending"], "free": sums["free"]}
        for number in range(first, first + self.most):
            block = self.block(number)
            found["size"] -= block.size
            found["requested"] -= block.requested
            found[block.state] -= block.size
        self._rests[segment] = found
        return found

    def group(self, block: Block) -> Group | None:
        """Return a block's owner; None if the block is free."""
        if block.state == "free":
            return None
        allocations, index = self.allocations, block.allocation
        return allocations.group(index, block.size, 0, carried=block.carried)

    def __len__(self) -> int:
        return len(self.visible)

    def line(self, at: int) -> Line:
        segment, part = self.visible[at]
        address, *_, sums = self.map.segment(segment)
        if part is None:
            held, used = sums["size"], sums["in_use"]
            cells = size(held), size(used), size(sums["free"])
            bar = self.map.bar(segment, self.cells)
            sign = "-" if address in self.opened else "+"
            share = used / held if held else 0.0
            return Line(cells, f"{address:x}", share, sign=sign, lead=_coloured(bar))
        if part == REST:
            rest = self.rest(segment)
            words = counted(rest["blocks"], "more block")
            words += " (Enter shows more)" if self.most < MOST_ROWS else ""
            cells = size(rest["size"]), size(rest["in use"]), size(rest["free"])
            return Line(cells, words, level=1, dim=True)
        block = self.block(part)
        used, free = block.state == "in use", block.state == "free"
        cells = size(block.size), size(block.size) if used else "", size(block.size) if free else ""
        share = block.size / sums["size"] if used else 0.0
        lead = f"{block.address:x}  "
        group = self.group(block)
        if group is None:
            return Line(cells, block.state, share, 1, lead=((lead, "dim"),), change=-free)
        lead += "" if used else f"{block.state}  "
        if not used or size(block.requested) != cells[0]:
            lead += f"{size(block.requested):>9}  "
        return named_line(cells, group, share)._replace(level=1, lead=((lead, "dim"),))

    def key(self, at: int) -> Hashable:
        segment, part = self.visible[at]
        if part is None or part == REST:
            address = self.map.segment(segment)[0]
            return address if part is None else ("more", address)
        return "block", self.block(part).address

    def texts(self, at: int) -> Sequence[str]:
        segment, part = self.visible[at]
        if part == REST:
            return ()
        if part is None:
            return (f"0x{self.map.segment(segment)[0]:x}",)
        block = self.block(part)
        group = self.group(block)
        texts = [f"0x{block.address:x}", block.state]
        return texts if group is None else [*texts, group.label, *frame_texts(group.frames)]

    def shown(self, at: int) -> Shown:
        segment, part = self.visible[at]
        if part is not None:
            return self._rest_shown(segment) if part == REST else self._block_shown(part)
        found = self.map.segment(segment)
        address, stream, pool, small, expandable, _, _, _, sums = found
        known = pool_of(self.replay, self.map, pool)
        pairs = (
            ("address", f"0x{address:x}"),
            ("size", f"{size(sums['size'])}, {'small' if small else 'large'} blocks"),
            ("in use", f"{size(sums['in_use'])} in {counted(sums['blocks_in_use'], 'block')}"),
            ("pending", f"{size(sums['pending'])} in {counted(sums['blocks_pending'], 'block')}"),
            ("free", f"{size(sums['free'])} in {counted(sums['blocks_free'], 'block')}"),
            ("largest free", size(sums["largest"])),
            ("requested", size(sums["requested"])),
            ("pool", pool_label(known)),
            ("stream", stream_label(stream)),
            ("expandable", "yes" if expandable else "no"),
        )
        return Shown(f"segment at 0x{address:x}", pairs)

    def _rest_shown(self, segment: int) -> Shown:
        rest = dict(self.rest(segment))
        pairs = [("blocks", count(rest.pop("blocks")))]
        pairs += [(name, size(n_bytes)) for name, n_bytes in rest.items()]
        return Shown("the rest", tuple(pairs))

    def _block_shown(self, number: int) -> Shown:
        block = self.block(number)
        pairs = [
            ("address", f"0x{block.address:x}"),
            ("state", block.state),
            ("size", f"{size(block.size)} ({count(block.size)} bytes)"),
        ]
        group = self.group(block)
        if group is None:
            return Shown("free block", tuple(pairs))
        pairs.append(("requested", f"{size(block.requested)} ({count(block.requested)} bytes)"))
        allocations, carried = self.allocations, block.carried
        native = allocations.usage.native
        ends = memoryview(native.carried_ends() if carried else native.ends())
        pairs += allocations.pairs(block.allocation, ends[block.allocation], carried=carried)
        return named_shown(group, pairs)
