"""A measure's pools or streams."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from memreplay.explore.rows.row import Line, Shown
from memreplay.render.units import count, percent, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Usage


class PartRows:
    """A measure's pools or streams."""

    titles: tuple[str, ...] = ("bytes", "share", "peak")

    def __init__(self, grouper: Grouper, usage: Usage, event: int) -> None:
        self.groups, total, _, self.parts = grouper.holders(usage, event, 0)
        self.whole = usage.bytes_at(event)
        self.note = "" if total else "nothing was held"

    def __len__(self) -> int:
        return len(self.groups)

    def line(self, at: int) -> Line:
        group, part = self.groups[at], self.parts[at]
        cells = size(group.bytes), percent(group.share), size(part.peak_bytes)
        return Line(cells, clean(group.label), group.share)

    def key(self, at: int) -> Hashable:
        return self.groups[at].label

    def texts(self, at: int) -> Sequence[str]:
        return (self.groups[at].label,)

    def shown(self, at: int) -> Shown:
        part = self.parts[at]
        pairs = (
            ("held", f"{size(part.bytes)} ({count(part.bytes)} bytes)"),
            ("its peak", f"{size(part.peak_bytes)} after event {count(part.peak_event)}"),
            ("reserved", size(part.reserved_bytes)),
        )
        return Shown(clean(self.groups[at].label), pairs)
