"""Finds, in the C++ frames of a stack, the operator that asked for memory."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memreplay.analysis.plumbing import NODE, OPERATOR
from memreplay.model import Frame


def operator_of(frames: Iterable[Frame]) -> str:
    """`aten::linear`: the outermost operator, which is the one that the code called; else empty.

    The innermost would nearly always be some kind of `empty`.
    """
    name = _last_match(OPERATOR, frames)
    return f"aten::{name}" if name else ""


def backward_of(frames: Iterable[Frame]) -> str:
    """`MulBackward0`: the autograd node that ran; empty where the stack is not of a backward."""
    return _last_match(NODE, frames)


def _last_match(pattern: re.Pattern[str], frames: Iterable[Frame]) -> str:
    name = ""
    for frame in frames:
        # Most frames are of Python: the substring test spares them the pattern.
        if "::" in frame.function and (match := pattern.search(frame.function)):
            name = match[1]
    return name
