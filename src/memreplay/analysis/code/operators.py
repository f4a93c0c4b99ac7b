"""Operators and nodes of autograd, as the C++ frames of a stack name them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from memreplay.analysis.code.late import Late

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memreplay.snapshot.model import Frame

_OPERATOR = Late(r"at::_ops::(\w+)::(?:call|redispatch)\b", ("at::_ops::",))
_NODE = Late(r"torch::autograd::(?:generated::)?(\w+)::apply\b", ("torch::autograd::",))


@lru_cache(maxsize=1 << 13)
def operator_in(function: str) -> str:
    """`linear`: the operator that a frame's function stands for; else empty."""
    return _found(_OPERATOR, function)


@lru_cache(maxsize=1 << 13)
def node_in(function: str) -> str:
    """`MulBackward0`: the node that it stands for; else empty."""
    return _found(_NODE, function)


def outermost_operator(frames: Iterable[Frame]) -> str:
    """`linear`: the outermost operator, which is the one that the code called; else empty.

    The innermost would nearly always be some kind of `empty`.
    """
    return _last(operator_in, frames)


def operator_of(frames: Iterable[Frame]) -> str:
    """`aten::linear`: the same, as PyTorch writes it."""
    name = outermost_operator(frames)
    return f"aten::{name}" if name else ""


def backward_of(frames: Iterable[Frame]) -> str:
    """`MulBackward0`: the node that ran; empty where the stack is not of a backward."""
    return _last(node_in, frames)


def _last(of: Callable[[str], str], frames: Iterable[Frame]) -> str:
    name = ""
    for frame in frames:
        name = of(frame.function) or name
    return name


def _found(pattern: Late, function: str) -> str:
    # Most frames are of Python: the substring test spares them the pattern.
    match = pattern.search(function) if "::" in function else None
    return match[1] if match else ""
