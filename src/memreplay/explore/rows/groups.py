"""The groups of a live set, formatted when visible."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from memreplay.analysis.groups.holding import HoldersOfGroups
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
from memreplay.render.units import count, counted, percent, size
from memreplay.snapshot.once import once

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.model import Group
    from memreplay.snapshot.replay import Usage


class GroupRows:
    """The groups of a live set."""

    titles: tuple[str, ...] = ("bytes", "share", "count")

    def __init__(self, grouper: Grouper, usage: Usage, event: int, most: int = FIRST_ROWS) -> None:
        self.grouper, self.usage, self.event = grouper, usage, event
        keys = grouper.keys(usage)
        found, self.total, self.whole, self.blocks = keys.sums(
            usage.listed(event), usage.native, most
        )
        self.found = found
        self.rest = self.total - len(found)
        self.note = "" if found else "nothing was held"
        self._groups: dict[int, Group] = {}

    def __len__(self) -> int:
        return len(self.found) + (self.rest > 0)

    def group(self, at: int) -> Group:
        """Return a row's group."""
        if at not in self._groups:
            name, _, n_bytes, blocks, _ = self.found[at]
            self._groups[at] = self.grouper.group(self.usage, name, n_bytes, blocks, self.whole)
        return self._groups[at]

    def line(self, at: int) -> Line:
        if at == len(self.found):
            held = self.whole - sum(row[2] for row in self.found)
            blocks = self.blocks - sum(row[3] for row in self.found)
            words = f"{counted(self.rest, 'more group')} ({how(len(self.found))})"
            cells = (size(held), percent(held / self.whole if self.whole else 0), count(blocks))
            return Line(cells, words, dim=True)
        group = self.group(at)
        cells = (size(group.bytes), percent(group.share), count(group.count))
        return named_line(cells, group, group.share, self.grouper.by)

    def key(self, at: int) -> Hashable:
        return MORE if at == len(self.found) else self.found[at][0]

    def texts(self, at: int) -> Sequence[str]:
        if at == len(self.found):
            return ()
        group = self.group(at)
        return [group.label, *frame_texts(group.frames)]

    def shown(self, at: int) -> Shown:
        if at == len(self.found):
            return Shown("the rest", ())
        group = self.group(at)
        name = self.found[at][0]
        pairs = (
            ("held", f"{size(group.bytes)} ({count(group.bytes)} bytes)"),
            ("share", percent(group.share)),
            ("blocks", count(group.count)),
            *(
                ("held by", f"{size(one.bytes)}: {one.label}")
                for one in self.holders.of(name)
                if self.grouper.by != "holder"
            ),
        )
        return named_shown(group, pairs, self.grouper.by)

    @once
    def holders(self) -> HoldersOfGroups:
        """The Python objects that held each group, if recorded."""
        keys = self.grouper.keys(self.usage)
        return HoldersOfGroups(self.grouper, self.usage, keys, self.event)
