"""Compute and cache one snapshot's group keys and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.groups.ways import WAYS
from memreplay.analysis.groups.ways.blocks import ByHolder
from memreplay.analysis.groups.ways.categories import ByCategory
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.groups.ways.base import Known, Way
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.model import Label
    from memreplay.snapshot.replay import Usage


class Dimensions:
    """One snapshot's groups, by single keys and by combinations of keys."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._ways: dict[str, Way] = {}
        self._keys: dict[tuple[object, ...], Keys] = {}
        self._pairs: dict[tuple[object, ...], Keys] = {}

    def way(self, by: str) -> Way:
        """Return this snapshot's `Way` for a key, creating it on first use."""
        if by not in self._ways:
            self._ways[by] = WAYS[by](self.known)
        return self._ways[by]

    @property
    def category(self) -> ByCategory:
        """The `Way` for categories, which also knows the categories that include guesses."""
        way = self.way(ByCategory.name)
        assert isinstance(way, ByCategory)
        return way

    @property
    def holder(self) -> ByHolder:
        """The `Way` for holders, which also knows whether they were noted."""
        way = self.way(ByHolder.name)
        assert isinstance(way, ByHolder)
        return way

    def keys(self, usage: Usage, by: str) -> Keys:
        """Return a device's allocations grouped by one key."""
        way = self.way(by)
        # Only grouping by size depends on the measure.
        key = (usage.replay.device, by, usage.measure if way.of_measure else None)
        if key not in self._keys:
            self._keys[key] = way.keys(usage)
        return self._keys[key]

    def keys_of_all(self, usage: Usage, ways: Sequence[str]) -> Keys:
        """Return a device's allocations grouped by several keys combined."""
        found = self.keys(usage, ways[0])
        measure = usage.measure if any(WAYS[way].of_measure for way in ways) else None
        for i in range(1, len(ways)):
            key = (found, ways[: i + 1], measure)
            if key not in self._pairs:
                self._pairs[key] = _groups.pair(found, self.keys(usage, ways[i]))
            found = self._pairs[key]
        return found

    def labels(self, usage: Usage, ways: Sequence[str], name: int) -> tuple[Label, ...]:
        """Return a combined group's label for each key."""
        keys = self.keys_of_all(usage, ways)
        labels: list[Label] = []
        for way in reversed(ways[1:]):
            first, second = keys.of
            labels.append(self.label(usage, way, memoryview(second.names())[name & 0xFFFFFFFF]))
            name = memoryview(first.names())[name >> 32]
            keys = first
        labels.append(self.label(usage, ways[0], name))
        return tuple(reversed(labels))

    def label(self, usage: Usage, by: str, name: int) -> Label:
        """Return the label of the group with this number."""
        return self.way(by).label(usage, name)
