"""Columns of group names per allocation, for the grouping keys that the recorder notes."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay.export.tables.dictionaries import code_dictionary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.analysis.groups.dimensions import Dimensions
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


class WayColumn:
    """A dictionary-encoded column of the group names for one key; devices share the dictionary."""

    def __init__(
        self,
        snap: Snapshot,
        dimensions: Dimensions,
        by: str,
    ) -> None:
        self.dimensions, self.by = dimensions, by
        self._places: dict[int, NDArray[np.int32]] = {}
        words: dict[str, int] = {}
        way = dimensions.way(by)
        for device in snap.devices:
            usage = snap.replay(device).measure()
            keys = dimensions.keys(usage, by)
            keys.find_all()
            places = []
            for name in memoryview(keys.names()).tolist():
                text = way.column_text(usage, name)
                places.append(-1 if text is None else words.setdefault(text, len(words)))
            self._places[device] = np.array(places, dtype=np.int32)
        spelled = list(words)
        self._words = code_dictionary(spelled.__getitem__, len(spelled))

    def column(self, usage: Usage, events: NDArray[Any] | None, blocks: NDArray[Any] | None) -> Any:
        """Return the column for allocations (events) or carried-over blocks."""
        numbers = group_numbers(self.dimensions.keys(usage, self.by), events, blocks)
        place = self._places[usage.replay.device][numbers]
        return self._words.column(place.astype(np.uint32))


def group_numbers(
    keys: Keys, events: NDArray[Any] | None, blocks: NDArray[Any] | None
) -> NDArray[np.uint32]:
    """Return the group number of each allocation or carried-over block."""
    nothing = array("q")
    if events is not None:
        return np.asarray(keys.numbers(events.data, nothing)[0])
    assert blocks is not None
    return np.asarray(keys.numbers(nothing, blocks.data)[1])
