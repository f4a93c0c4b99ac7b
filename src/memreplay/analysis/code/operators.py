"""Extract operators and autograd nodes from a stack's C++ frames."""

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
    """Return the operator that a function implements, such as `linear`, or ""."""
    return _found(_OPERATOR, function)


@lru_cache(maxsize=1 << 13)
def node_in(function: str) -> str:
    """Return the autograd node that a function implements, such as `MulBackward0`, or ""."""
    return _found(_NODE, function)


def outermost_operator(frames: Iterable[Frame]) -> str:
    """Return the outermost operator, which is the one that user code called, such as `linear`, or
    "".

    The innermost one would usually be some kind of `empty`.
    """
    return _last(operator_in, frames)


def operator_of(frames: Iterable[Frame]) -> str:
    """Return the outermost operator in PyTorch's spelling, such as `aten::linear`, or ""."""
    name = outermost_operator(frames)
    return f"aten::{name}" if name else ""


def backward_of(frames: Iterable[Frame]) -> str:
    """Return the autograd node that ran, such as `MulBackward0`; "" outside a backward pass."""
    return _last(node_in, frames)


def _last(of: Callable[[str], str], frames: Iterable[Frame]) -> str:
    name = ""
    for frame in frames:
        name = of(frame.function) or name
    return name


def _found(pattern: Late, function: str) -> str:
    # Most frames are Python frames, and this substring test is cheaper than a regular expression.
    match = pattern.search(function) if "::" in function else None
    return match[1] if match else ""
