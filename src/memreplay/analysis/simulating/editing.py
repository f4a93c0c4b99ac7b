"""Select allocations for a simulated change of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.selecting.category import of_categories
from memreplay.analysis.selecting.filters import Filtering
from memreplay.analysis.simulating.records import Changed
from memreplay.engine.query._vectors import vector
from memreplay.errors import UsageError
from memreplay.snapshot.recorded_allocator import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.selecting.selection import Filters
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

MOST_TIMES = 1000  # maximum factor
_NEVER = 0xFFFFFFFE  # end of a carried-over block to leave out


class Change(NamedTuple):
    """A change and the allocations that it applies to, which are those that pass `filters` and have
    one of `categories`.
    """

    factor: float = 1.0
    """Factor for the allocations' sizes, 0 to 1,000; 0 removes them."""
    twice: bool = False
    """Whether the allocations are freed immediately and allocated again when needed, as with
    checkpointing.
    """
    filters: Filters | None = None
    """Only allocations that pass these filters; None for all."""
    categories: tuple[str, ...] = ()
    """Only allocations of these categories; empty for all."""


class Editor:
    """Finds a change's allocations on each device.

    Raises UsageError for patterns and categories without a match, and for a factor outside 0 to
    MOST_TIMES.
    """

    def __init__(
        self, snap: Snapshot, change: Change, rules: tuple[Rule, ...] | None = None
    ) -> None:
        if not 0 <= change.factor <= MOST_TIMES:  # also catches NaN
            raise UsageError(f"sizes can be multiplied by 0 to {MOST_TIMES}, not {change.factor}")
        self.change = change
        self._filtering = None
        if change.filters is not None:
            self._filtering = Filtering(snap, change.filters)
            self._filtering.check()
        self._grouper = Grouper(snap, "category", rules) if change.categories else None

    def edit(self, replay: Replay) -> Edit:
        """Return the change for one device. It may select nothing."""
        chosen = replay.measure("requested")
        if self._filtering is not None:
            chosen = self._filtering.filtered(chosen)
        if self._grouper is not None:
            chosen = of_categories(self._grouper, chosen, self.change.categories)
        return Edit(chosen, self.change.factor, self.change.twice)


def changes_nothing(edits: Iterable[Edit]) -> bool:
    """Return whether no edit selects anything. Carried-over blocks can only be removed."""
    found = map(changed_by, edits)
    return not any(
        one.allocation_count or (one.carried_over_blocks and not one.factor) for one in found
    )


def changed_by(edit: Edit) -> Changed:
    """Sum up what an edit of chosen allocations changes."""
    assert edit.chosen is not None
    native, replay = edit.chosen.native, edit.chosen.trace
    counted = vector(native.counted()) != 0
    carried = vector(native.carried_ends()) != _NEVER
    return Changed(
        factor=edit.factor,
        twice=edit.twice,
        allocation_count=counted.count(),
        bytes=replay.vector("size", "q")[counted].sum(),
        carried_over_blocks=carried.count(),
    )
