"""Single allocations, formatted when visible."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from memreplay.explore.rows.row import (
    FIRST_ROWS,
    MORE,
    Line,
    Shown,
    frame_texts,
    how,
    named_line,
    named_shown,
)
from memreplay.render.units import count, counted, size

if TYPE_CHECKING:
    from memreplay.explore.rows.allocations import Allocations
    from memreplay.snapshot.model import Group


class ListRows:
    """Single allocations, largest first."""

    titles: tuple[str, ...] = ("bytes", "address", "age")

    def __init__(self, allocations: Allocations, most: int = FIRST_ROWS) -> None:
        self.allocations = allocations
        usage, event = allocations.usage, allocations.event
        self.found = usage.largest(event, most)
        allocs, carried = usage.listed(event)
        self.total = len(memoryview(allocs)) + len(memoryview(carried))
        self.rest = self.total - len(self.found)
        self.whole = usage.bytes_at(event)
        self.note = "" if self.found else "nothing was held"

    def __len__(self) -> int:
        return len(self.found) + (self.rest > 0)

    def group(self, at: int) -> Group:
        index, carried, n_bytes, _ = self.found[at]
        return self.allocations.group(index, n_bytes, self.whole, carried=carried)

    def address(self, at: int) -> int:
        """Return a row's address."""
        index, carried, _, _ = self.found[at]
        return self.allocations.address(index, carried=carried)

    def line(self, at: int) -> Line:
        if at == len(self.found):
            held = self.whole - sum(row[2] for row in self.found)
            words = f"{counted(self.rest, 'more allocation')} ({how(len(self.found))})"
            return Line((size(held), "", ""), words, dim=True)
        index, carried, _, _ = self.found[at]
        group, age = self.group(at), self.allocations.age(index, carried=carried)
        cells = size(group.bytes), f"{self.address(at):x}", age
        return named_line(cells, group, group.share)

    def key(self, at: int) -> Hashable:
        return MORE if at == len(self.found) else self.found[at][:2]

    def texts(self, at: int) -> Sequence[str]:
        if at == len(self.found):
            return ()
        group = self.group(at)
        return [group.label, f"0x{self.address(at):x}", *frame_texts(group.frames)]

    def shown(self, at: int) -> Shown:
        if at == len(self.found):
            return Shown("the rest", ())
        index, carried, n_bytes, end = self.found[at]
        group = self.group(at)
        pairs = (
            ("address", f"0x{self.address(at):x}"),
            ("held", f"{size(n_bytes)} ({count(n_bytes)} bytes)"),
            *self.allocations.pairs(index, end, carried=carried),
        )
        return named_shown(group, pairs)
