"""A snapshot's frames, stacks and strings by id."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from memreplay.snapshot.once import Once

if TYPE_CHECKING:
    import memreplay._core as _core


class Code:
    """Frames, stacks and strings by id, for code that visits all of them.

    `native` has all columns. `frames`, `stacks` and `strings` are counts. `string(i)` returns a
    string; `frame(i)` the ids of a frame's function and file, and its line; `stack(i)` a stack's
    frame ids, innermost first; `names()` the ids of all files and of all functions that frames
    refer to. Functions that take an id raise IndexError.

    `classified` keeps what analyses find out about all frames or strings, by what they searched
    for: one report asks several times.
    """

    def __init__(self, native: _core.Tables) -> None:
        # Bound methods, because they are called for each frame of a file.
        self.frames = native.n_frames
        self.stacks = native.n_stacks
        self.strings = native.n_strings
        self.string = native.string
        self.frame = native.frame
        self.stack = native.stack
        self.names = native.frame_strings
        self.native = native
        self.classified: Once[Hashable, Any] = Once()

    def functions(self) -> memoryview:
        """Return each frame's function id (u32)."""
        return memoryview(self.native.rows("frame", "name"))
