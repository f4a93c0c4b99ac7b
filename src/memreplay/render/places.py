"""Names a line of code, or a function of PyTorch's, in a few words of a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.render.fit import cut_right
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.analysis.code.naming import Name

MOST_CELLS = 100  # of a function or a file, which a snapshot may make as long as it likes


def place_words(name: Name | None, label: str) -> str:
    """`forward model.py:72`, or what stands for no place: `BmmBackward0 (autograd)`."""
    if name is None:
        return cut_right(clean(label), MOST_CELLS)
    file = cut_right(clean(name.file.replace("\\", "/").rpartition("/")[2]), MOST_CELLS)
    return replace(name, function=cut_right(clean(name.function), MOST_CELLS), file=file).words


def in_place(words: str) -> str:
    """`in forward model.py:72`, `(allocated before the recording)`: after a number of bytes."""
    return words if words.startswith("(") else f"in {words}"
