"""Columns that say who allocated: function, file and line that a stack is put down to, module."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay.analysis.code.plumbing import USER
from memreplay.engine.query import _groups
from memreplay.export.tables.arrow import numbers, texts, words_array
from memreplay.export.tables.words import string_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.analysis.groups.dimensions import Dimensions
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

_NO_FRAME = (_groups.CARRIED, _groups.NO_STACK)


class Callers:
    """Who allocated, as `--by frame` and `--by module` say it; null for what has no stack."""

    def __init__(self, snap: Snapshot, dimensions: Dimensions) -> None:
        self.snap = snap
        self.dimensions = dimensions
        frames = snap.frames
        self.functions = string_words(snap, frames.function)
        self.files = string_words(snap, frames.file)
        rank = np.frombuffer(dimensions.file_rank, dtype=np.uint8)
        self.is_user = rank[frames.file] == USER if len(frames) else np.zeros(0, dtype=bool)
        # All devices spell with the same words: a column has one dictionary.
        self._modules: dict[int, NDArray[np.int32]] = {}
        self._words: dict[str, int] = {}
        for device in snap.devices:
            self._modules[device] = self._met_modules(snap.replay(device).measure())
        self.words = words_array(list(self._words) or [""])

    def _met_modules(self, usage: Usage) -> NDArray[np.int32]:
        """The word of each of a device's groups by module, -1 for none."""
        keys = self.dimensions.keys(usage, "module")
        keys.meet()
        places = []
        for name in memoryview(keys.names()).tolist():
            said = name not in _NO_FRAME and bool(keys.path(name))
            text = self.dimensions.label(usage, "module", name).text if said else None
            places.append(-1 if text is None else self._words.setdefault(text, len(self._words)))
        return np.array(places, dtype=np.int32)

    def columns(
        self, usage: Usage, events: NDArray[Any] | None, blocks: NDArray[Any] | None
    ) -> dict[str, Any]:
        """The columns of these allocations (events), or of these carried blocks."""
        frame = self._names_of(self.dimensions.keys(usage, "frame"), events, blocks)
        missing = np.isin(frame, np.array(_NO_FRAME, dtype=np.uint64))
        at = np.where(missing, 0, frame).astype(np.int64)
        frames = self.snap.frames
        if len(frames):
            function, file, line = frames.function[at], frames.file[at], frames.line[at]
            is_user = self.is_user[at]
        else:
            function = file = np.zeros(len(at), dtype=np.uint32)
            line, is_user = at, np.zeros(len(at), dtype=bool)
        modules = self.dimensions.keys(usage, "module")
        place = self._modules[usage.replay.device][_numbers(modules, events, blocks)]
        return {
            "function": self.functions.column(function, missing),
            "file": self.files.column(file, missing),
            "line": numbers(line, missing),
            "is_user": numbers(is_user, missing),
            "module": texts(np.maximum(place, 0), self.words, place < 0),
        }

    def _names_of(
        self, keys: Keys, events: NDArray[Any] | None, blocks: NDArray[Any] | None
    ) -> NDArray[np.uint64]:
        group = _numbers(keys, events, blocks)
        names: NDArray[np.uint64] = np.asarray(keys.names())[group]
        return names


def _numbers(
    keys: Keys, events: NDArray[Any] | None, blocks: NDArray[Any] | None
) -> NDArray[np.uint32]:
    """The group of each of these allocations, or of these carried blocks."""
    nothing = array("q")
    if events is not None:
        return np.asarray(keys.numbers(events.data, nothing)[0])
    assert blocks is not None
    return np.asarray(keys.numbers(nothing, blocks.data)[1])
