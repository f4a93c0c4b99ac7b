"""Says that two recordings have different frames, and that only those of both are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.analysis.code.native import FramesKept


def fewer_words(file: str, kept: FramesKept) -> str:
    """The note on the file that has fewer frames than the other."""
    if kept == "none":
        return (
            f"{file} was recorded without stacks, so only totals can be compared; record both with"
            ' context="all" to see which code changed'
        )
    return (
        f"{file} was recorded without C++ frames, so those of the other file don't count:"
        ' allocations of the backward pass have no stack here; record both with stacks="all" to'
        " compare them, too"
    )
