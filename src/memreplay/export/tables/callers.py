"""Columns for the call site: function, file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay.analysis.code.naming import name_of_frame
from memreplay.analysis.code.plumbing import USER
from memreplay.analysis.groups.ways.code import STACKLESS
from memreplay.export.tables.dictionaries import Words, string_dictionary
from memreplay.export.tables.ways import group_numbers
from memreplay.snapshot.arrow_columns import numbers
from memreplay.snapshot.model import Frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.analysis.groups.dimensions import Dimensions
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


class Callers:
    """The call site that `--by line` reports; null without a stack."""

    def __init__(self, snap: Snapshot, dimensions: Dimensions) -> None:
        self.snap = snap
        self.dimensions = dimensions
        frames = snap.frames
        self.functions = Words(self._function, frames.function)
        self.files = string_dictionary(snap, frames.file)
        rank = np.frombuffer(dimensions.known.file_rank, dtype=np.uint8)
        self.is_user = rank[frames.file] == USER if len(frames) else np.zeros(0, dtype=bool)
        self.has_file, self.has_line = self._places()

    def _function(self, string: int) -> str | None:
        """Return a function's name, spelled as in naming.py."""
        text = self.snap.text(string)
        return text and name_of_frame(Frame(text, "", 0)).function

    def _places(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return for each frame whether its name has a file and a line. Shape (frames,), bool."""
        frames = self.snap.frames
        if not len(frames):
            return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
        pairs, of_frame = np.unique(
            np.stack([frames.function, frames.file]).astype(np.int64), axis=1, return_inverse=True
        )
        text = self.snap.code.string
        named = [name_of_frame(Frame(text(a), text(b), 1)) for a, b in pairs.T.tolist()]
        of_frame = of_frame.reshape(-1)
        has_file = np.array([bool(one.file) for one in named])[of_frame]
        return has_file, has_file & np.array([bool(one.line) for one in named])[of_frame]

    def columns(
        self, usage: Usage, events: NDArray[Any] | None, blocks: NDArray[Any] | None
    ) -> dict[str, Any]:
        """Return the columns for allocations (events) or carried-over blocks."""
        frame = self._names_of(self.dimensions.keys(usage, "line"), events, blocks)
        missing = np.isin(frame, np.array(STACKLESS, dtype=np.uint64))
        at = np.where(missing, 0, frame).astype(np.int64)
        frames = self.snap.frames
        if len(frames):
            function, file, line = frames.function[at], frames.file[at], frames.line[at]
            is_user = self.is_user[at]
            no_file, no_line = missing | ~self.has_file[at], missing | ~self.has_line[at]
        else:
            function = file = np.zeros(len(at), dtype=np.uint32)
            line, is_user = at, np.zeros(len(at), dtype=bool)
            no_file = no_line = missing
        return {
            "function": self.functions.column(function, missing),
            "file": self.files.column(file, no_file),
            "line": numbers(line, no_line),
            "is_user": numbers(is_user, missing),
        }

    def _names_of(
        self, keys: Keys, events: NDArray[Any] | None, blocks: NDArray[Any] | None
    ) -> NDArray[np.uint64]:
        group = group_numbers(keys, events, blocks)
        names: NDArray[np.uint64] = np.asarray(keys.names())[group]
        return names
