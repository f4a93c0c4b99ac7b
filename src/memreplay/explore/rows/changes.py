"""Allocations and frees in a range of events, formatted when visible."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

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
from memreplay.render.units import counted, signed_count, signed_size, size

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.model import Group
    from memreplay.snapshot.replay import Usage


class Flow(NamedTuple):
    """A group's bytes and allocations: held before the range, allocated in it, and freed in it."""

    before_bytes: int
    before: int
    came_bytes: int
    came: int
    went_bytes: int
    went: int

    @property
    def after_bytes(self) -> int:
        return self.before_bytes + self.came_bytes - self.went_bytes

    @property
    def after(self) -> int:
        return self.before + self.came - self.went

    @property
    def change_bytes(self) -> int:
        return self.came_bytes - self.went_bytes


class ChangeRows:
    """The groups, sorted by how much they changed in a range of events.

    The span consists of the event before the range and the range's last event.
    """

    titles: tuple[str, ...] = ("change", "allocated", "freed", "after")

    def __init__(
        self, grouper: Grouper, usage: Usage, span: tuple[int, int], most: int = FIRST_ROWS
    ) -> None:
        self.grouper, self.usage = grouper, usage
        found, self.total, moved, _ = usage.traffic(grouper.keys(usage), *span, most)
        self.found = [(name, Flow(*sums)) for name, *sums in found]
        self.whole = Flow(*moved)
        self.rest = self.total - len(found)
        self.most = abs(self.found[0][1].change_bytes) if self.found else 0
        self.note = "" if self.found else "nothing was allocated or freed"

    def __len__(self) -> int:
        return len(self.found) + (self.rest > 0)

    def group(self, at: int) -> Group:
        name, flow = self.found[at]
        return self.grouper.group(self.usage, name, flow.after_bytes, flow.after, 0)

    def flow(self, at: int) -> Flow:
        """Return a row's flow. The last row may stand for all omitted groups."""
        if at < len(self.found):
            return self.found[at][1]
        shown = (sum(one) for one in zip(*(flow for _, flow in self.found), strict=True))
        return Flow(*(whole - part for whole, part in zip(self.whole, shown, strict=True)))

    def line(self, at: int) -> Line:
        flow = self.flow(at)
        cells = (
            signed_size(flow.change_bytes),
            size(flow.came_bytes),
            size(flow.went_bytes),
            size(flow.after_bytes),
        )
        if at == len(self.found):
            words = f"{counted(self.rest, 'more group')} ({how(len(self.found))})"
            return Line(cells, words, dim=True)
        share = abs(flow.change_bytes) / self.most if self.most else 0.0
        return named_line(cells, self.group(at), share, self.grouper.by, flow.change_bytes)

    def key(self, at: int) -> Hashable:
        return MORE if at == len(self.found) else self.found[at][0]

    def texts(self, at: int) -> Sequence[str]:
        if at == len(self.found):
            return ()
        group = self.group(at)
        return [group.label, *frame_texts(group.frames)]

    def shown(self, at: int) -> Shown:
        flow = self.flow(at)
        more = flow.came - flow.went
        blocks = f"{signed_count(more)} block" + "s" * (abs(more) != 1)
        pairs = (
            ("before", f"{size(flow.before_bytes)} in {counted(flow.before, 'block')}"),
            ("allocated", f"{size(flow.came_bytes)} in {counted(flow.came, 'block')}"),
            ("freed", f"{size(flow.went_bytes)} in {counted(flow.went, 'block')}"),
            ("after", f"{size(flow.after_bytes)} in {counted(flow.after, 'block')}"),
            ("change", f"{signed_size(flow.change_bytes)}, {blocks}"),
        )
        if at == len(self.found):
            return Shown("the rest", pairs)
        group = self.group(at)
        return named_shown(group, pairs, self.grouper.by)
