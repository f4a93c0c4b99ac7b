"""Extract operators and autograd nodes from a stack's C++ frames."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memreplay.snapshot.model import Frame


@lru_cache(maxsize=1 << 13)
def operator_in(function: str) -> str:
    """Return the operator that a function implements, such as `linear`, or ""."""
    return _class_after(function, "at::_ops::", ("call", "redispatch"))


@lru_cache(maxsize=1 << 13)
def node_in(function: str) -> str:
    """Return the autograd node that a function implements, such as `MulBackward0`, or ""."""
    return _class_after(function, "torch::autograd::", ("apply",), "generated::")


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


# Regular expressions would take longer to compile than all names in a small file take.
def _class_after(text: str, prefix: str, methods: tuple[str, ...], inner: str = "") -> str:
    """Return the first class after a prefix, and perhaps another one, with one of the methods."""
    at = text.find(prefix)
    while at >= 0:
        at += len(prefix)
        for begin in (at + len(inner), at) if text.startswith(inner, at) else (at,):
            if name := _class_at(text, begin, methods):
                return name
        at = text.find(prefix, at)
    return ""


def _class_at(text: str, at: int, methods: tuple[str, ...]) -> str:
    """Return the class whose name begins here, if it's followed by one of the methods."""
    name = text[at : text.find("::", at)]
    at += len(name) + 2
    for method in methods:
        if text.startswith(method, at):
            after = at + len(method)
            whole = not _is_word(text[after : after + 1])
            return name if whole and all(map(_is_word, name)) else ""
    return ""


def _is_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
