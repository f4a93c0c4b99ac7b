"""The code that a snapshot names: its frames and stacks by their ids, and the texts of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import memreplay._core as _core


class Code:
    """Frames, stacks and strings as ids, for what looks at all of them.

    `frames`, `stacks` and `strings` say how many there are; `string(i)` is a text, `frame(i)` the
    ids of a frame's function and file, and its line; `stack(i)` the ids of a stack's frames,
    innermost first; `names()` the ids of all files, and of all functions, that frames name. Those
    that take an id raise IndexError.
    """

    def __init__(self, native: _core.Tables) -> None:
        # The tables' own methods: they are called for each frame of a file.
        self.frames = native.n_frames
        self.stacks = native.n_stacks
        self.strings = native.n_strings
        self.string = native.string
        self.frame = native.frame
        self.stack = native.stack
        self.names = native.frame_strings
        self._native = native

    def functions(self) -> memoryview:
        """u32 a frame: the id of its function."""
        return memoryview(self._native.rows("frame", "name"))
