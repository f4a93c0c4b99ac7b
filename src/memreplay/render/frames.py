"""Explain that two recordings have different kinds of frames, so only the common kinds are
compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memreplay.analysis.code.native import FramesKept


def fewer_text(file: str, kept: FramesKept) -> str:
    """Return the note about the file with fewer frames."""
    if kept == "none":
        return (
            f"{file} was recorded without stacks, so only totals can be compared; record both with"
            ' context="all" to see which code changed'
        )
    return (
        f"{file} was recorded without C++ frames, so the other file's are ignored and"
        ' backward allocations have no stack; record both with stacks="all" to'
        " compare those too"
    )
