"""Name a line of code or a PyTorch function within a sentence."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.render.fit import cut_right
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.analysis.code.naming import Name

MOST_CELLS = 100  # maximum width of function and file names, which snapshots don't limit


def place_text(name: Name | None, label: str) -> str:
    """Return `forward model.py:72`, or a label like `BmmBackward0 (autograd)`."""
    if name is None:
        return cut_right(clean(label), MOST_CELLS)
    file = cut_right(clean(name.file.replace("\\", "/").rpartition("/")[2]), MOST_CELLS)
    return replace(name, function=cut_right(clean(name.function), MOST_CELLS), file=file).words


def file_word(file: str) -> str:
    """Return a file's name, quoted for a shell command; FILE for standard input or bytes, whose
    names are in angle brackets.
    """
    return "FILE" if file.startswith("<") else clean(shlex.quote(file))


def in_place(words: str) -> str:
    """Return the text that follows a number of bytes, e.g. `in forward model.py:72` or `(allocated
    before the recording)`.
    """
    return words if words.startswith("(") else f"in {words}"
