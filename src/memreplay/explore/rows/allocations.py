"""Describe one allocation or carried-over block."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import memreplay._core as _core
from memreplay.analysis.groups.kinds import categories_source
from memreplay.analysis.groups.ways.blocks import pool_label
from memreplay.render.units import count, counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from memreplay.analysis.groups.dimensions import Dimensions
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.model import By, Group
    from memreplay.snapshot.replay import Usage

Pairs = list[tuple[str, str]]


class Allocations:
    """One measure's allocations.

    Each is an alloc event, counted from the first selected event, or a carried-over block's number.
    `categories` builds the grouper by category on first use.
    """

    def __init__(
        self, grouper: Grouper, categories: Callable[[], Grouper], usage: Usage, event: int
    ) -> None:
        self.grouper, self.categories = grouper, categories
        self.usage, self.event = usage, event
        self.replay = usage.replay

    def _of(self, name: str, index: int) -> int:
        return self.replay.value(name, index + self.replay.first_event)

    def address(self, index: int, *, carried: bool) -> int:
        """Return the block's address."""
        return int(self.replay.carried("address")[index]) if carried else self._of("address", index)

    def group(self, index: int, n_bytes: int, whole: int, *, carried: bool) -> Group:
        """Return the call site as a group, with the allocation's bytes and share of `whole`."""
        stack = self.replay.carried("stack")[index] if carried else self._of("stack", index)
        name = self.grouper.stack_name(stack, carried=carried)
        share = n_bytes / whole if whole else 0.0
        return self.grouper.stack_group(self.usage, name, n_bytes, 1, share)

    def age(self, index: int, *, carried: bool) -> str:
        """Describe how long the allocation has been live."""
        if carried:
            return "before"
        began = index + self.replay.first_event
        then, now = self.replay.clock_us(began), self.replay.clock_us(self.event)
        if then is None or now is None:
            return counted(self.event - began, "event")
        return duration(now - then)

    def category(self, index: int, *, carried: bool) -> str:
        """Return the category (as for `--by category`), and whether it was recorded or guessed."""
        label = self._label("category", self.categories().dimensions, index, carried=carried)
        return f"{label} ({categories_source(self.grouper.snap)})"

    def _label(self, by: By, dimensions: Dimensions, index: int, *, carried: bool) -> str:
        """Return the label of the allocation's group by one key."""
        keys = dimensions.keys(self.usage, by)
        row, none = array("q", [index]), array("q")
        events, blocks = keys.numbers(*((none, row) if carried else (row, none)))
        (group,) = memoryview(blocks if carried else events)
        return dimensions.label(self.usage, by, memoryview(keys.names())[group]).text

    def holder(self, index: int, *, carried: bool) -> str:
        """Return which object held the allocation when the recorder looked; empty if that wasn't
        recorded.
        """
        dimensions = self.grouper.dimensions
        if dimensions.holder.is_uninformative(self.replay):
            return ""
        return self._label("holder", dimensions, index, carried=carried)

    def pairs(self, index: int, end: int, *, carried: bool) -> Pairs:
        """Return when the allocation was made and freed, and its details.

        `end`: the event that freed it, or ABSENT_ID.
        """
        first = self.replay.first_event
        made = "before the first event" if carried else f"at event {count(index + first)}"
        freed = "never" if end == _core.ABSENT_ID else f"at event {count(end + first)}"
        pairs = [
            ("allocated", made),
            ("freed", freed),
            ("age", self.age(index, carried=carried)),
            ("category", self.category(index, carried=carried)),
        ]
        if not carried:
            stream = self._of("stream", index)
            pairs.append(("stream", "default" if stream == 0 else str(stream)))
            pool = self._of("pool", index)
            if pool != _core.ABSENT_ID and (known := self.replay.pool_of(pool)) is not None:
                pairs.append(("pool", pool_label(known)))
        if held_by := self.holder(index, carried=carried):
            pairs.append(("held by", held_by))
        return pairs
