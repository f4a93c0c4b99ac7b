"""Columns that say in words what allocations are grouped by: category, phase and module."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay.analysis.categories.rules import UNKNOWN
from memreplay.analysis.groups.dimensions import NO_MODULE_RAN
from memreplay.engine.query import _groups
from memreplay.export.tables.words import code_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from memreplay.analysis.groups.dimensions import Dimensions
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.model import Way
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

NO_FRAME = (_groups.CARRIED, _groups.NO_STACK)


class WayColumn:
    """A column of what groups by one way are called; all devices spell with the same words."""

    def __init__(
        self,
        snap: Snapshot,
        dimensions: Dimensions,
        by: Way,
        spell: Callable[[Dimensions, Usage, int], str | None],
    ) -> None:
        self.dimensions, self.by = dimensions, by
        self._places: dict[int, NDArray[np.int32]] = {}
        words: dict[str, int] = {}
        for device in snap.devices:
            usage = snap.replay(device).measure()
            keys = dimensions.keys(usage, by)
            keys.meet()
            places = []
            for name in memoryview(keys.names()).tolist():
                text = spell(dimensions, usage, name)
                places.append(-1 if text is None else words.setdefault(text, len(words)))
            self._places[device] = np.array(places, dtype=np.int32)
        spelled = list(words)
        self._words = code_words(spelled.__getitem__, len(spelled))

    def column(self, usage: Usage, events: NDArray[Any] | None, blocks: NDArray[Any] | None) -> Any:
        """Of these allocations (events), or of these carried blocks."""
        numbers = group_numbers(self.dimensions.keys(usage, self.by), events, blocks)
        place = self._places[usage.replay.device][numbers]
        return self._words.column(place.astype(np.uint32))


def category_column(snap: Snapshot, dimensions: Dimensions) -> WayColumn:
    """As `--by category` says it."""
    return WayColumn(snap, dimensions, "category", lambda d, u, n: d.label(u, "category", n).text)


def phase_column(snap: Snapshot, dimensions: Dimensions) -> WayColumn:
    """As `--by phase` says it."""
    return WayColumn(snap, dimensions, "phase", lambda d, u, n: d.label(u, "phase", n).text)


def module_column(snap: Snapshot, dimensions: Dimensions) -> WayColumn:
    """As `--by module` says it; null for what is in none, or not known."""

    def of_stack(found: Dimensions, usage: Usage, name: int) -> str | None:
        if name in NO_FRAME or not found.keys(usage, "module").path(name):
            return None
        return found.label(usage, "module", name).text

    def noted(found: Dimensions, usage: Usage, name: int) -> str | None:
        text = found.label(usage, "module", name).text
        return None if text in (NO_MODULE_RAN, UNKNOWN) else text

    return WayColumn(snap, dimensions, "module", of_stack if snap.recorded is None else noted)


def group_numbers(
    keys: Keys, events: NDArray[Any] | None, blocks: NDArray[Any] | None
) -> NDArray[np.uint32]:
    """The group of each of these allocations, or of these carried blocks."""
    nothing = array("q")
    if events is not None:
        return np.asarray(keys.numbers(events.data, nothing)[0])
    assert blocks is not None
    return np.asarray(keys.numbers(nothing, blocks.data)[1])
