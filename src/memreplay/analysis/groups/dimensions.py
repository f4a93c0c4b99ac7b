"""The ways to group one snapshot's allocations: keys and labels by any of them, found out once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.groups.ways import WAYS
from memreplay.analysis.groups.ways.categories import ByCategory
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.groups.ways.base import Known, Way
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.model import Label
    from memreplay.snapshot.replay import Usage


class Dimensions:
    """The groups of one snapshot's allocations by each way, and by several at once."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._ways: dict[str, Way] = {}
        self._keys: dict[tuple[object, ...], Keys] = {}
        self._pairs: dict[tuple[object, ...], Keys] = {}

    def way(self, by: str) -> Way:
        """Return a way, made for this snapshot."""
        if by not in self._ways:
            self._ways[by] = WAYS[by](self.known)
        return self._ways[by]

    @property
    def category(self) -> ByCategory:
        """The way by category, which knows what it isn't sure of."""
        way = self.way(ByCategory.name)
        assert isinstance(way, ByCategory)
        return way

    def keys(self, usage: Usage, by: str) -> Keys:
        """The groups of a device's allocations, one way."""
        way = self.way(by)
        # Only sizes differ from measure to measure.
        key = (usage.replay.device, by, usage.measure if way.of_measure else None)
        if key not in self._keys:
            self._keys[key] = way.keys(usage)
        return self._keys[key]

    def keys_of_all(self, usage: Usage, ways: Sequence[str]) -> Keys:
        """The groups by several ways at once."""
        found = self.keys(usage, ways[0])
        measure = usage.measure if any(WAYS[way].of_measure for way in ways) else None
        for i in range(1, len(ways)):
            key = (found, ways[: i + 1], measure)
            if key not in self._pairs:
                self._pairs[key] = _groups.pair(found, self.keys(usage, ways[i]))
            found = self._pairs[key]
        return found

    def labels(self, usage: Usage, ways: Sequence[str], name: int) -> tuple[Label, ...]:
        """The label of a group by each of several ways."""
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
        """The label of the group of this name."""
        return self.way(by).label(usage, name)
