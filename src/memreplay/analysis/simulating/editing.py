"""Allocations chosen as for any report, for a change of the program that is simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.selecting.category import of_categories
from memreplay.analysis.selecting.filters import Filtering
from memreplay.analysis.simulating.records import Changed
from memreplay.errors import UsageError
from memreplay.snapshot.recorded_allocator import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.selecting.selection import Filters
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

MOST_TIMES = 1000  # larger
_NEVER = 0xFFFFFFFE  # the end of a carried block that does not count


class Change(NamedTuple):
    """What to change of a program, and of which allocations: those that pass `filters` and are of
    one of the `categories`, all where neither is given."""

    factor: float = 1.0
    """What their sizes are multiplied by, 0 to 1,000; 0 leaves them out."""
    twice: bool = False
    """Whether they are freed at once and made again when they are needed, as checkpointing does."""
    filters: Filters | None = None
    """Of the allocations that pass."""
    categories: tuple[str, ...] = ()
    """Of the allocations of any of these."""


class Editor:
    """Finds the allocations of a change, device by device.

    Raises UsageError for patterns and categories that nothing meets, and for a factor below 0 or
    above MOST_TIMES.
    """

    def __init__(
        self, snap: Snapshot, change: Change, rules: tuple[Rule, ...] | None = None
    ) -> None:
        if not 0 <= change.factor <= MOST_TIMES:  # which NaN is not either
            raise UsageError(f"sizes are multiplied by 0 to {MOST_TIMES}, not {change.factor}")
        self.change = change
        self._filtering = None
        if change.filters is not None:
            self._filtering = Filtering(snap, change.filters)
            self._filtering.check()
        self._grouper = Grouper(snap, "category", rules) if change.categories else None

    def edit(self, replay: Replay) -> Edit:
        """The change of one device's program, which may be one of nothing."""
        chosen = replay.measure("requested")
        if self._filtering is not None:
            chosen = self._filtering.filtered(chosen)
        if self._grouper is not None:
            chosen = of_categories(self._grouper, chosen, self.change.categories)
        return Edit(chosen, self.change.factor, self.change.twice)


def changes_nothing(edits: Iterable[Edit]) -> bool:
    """Whether none of them is of anything. Blocks from before the recording can be left out, and no
    more."""
    found = map(changed_by, edits)
    return not any(one.allocations or (one.carried_over_blocks and not one.factor) for one in found)


def changed_by(edit: Edit) -> Changed:
    """What an edit changes, added up."""
    native, replay = edit.chosen.native, edit.chosen.trace
    counted = np.asarray(native.counted()).astype(bool)
    carried = np.asarray(native.carried_ends()) != _NEVER
    sizes = np.asarray(replay.column("size"))
    return Changed(
        factor=edit.factor,
        twice=edit.twice,
        allocations=int(counted.sum()),
        bytes=int(sizes[counted].sum()),
        carried_over_blocks=int(carried.sum()),
    )
