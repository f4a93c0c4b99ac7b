"""The name of a frame, and of a stack: what every output calls a group of allocations.

Text, JSON, tables, pages and the explorer show these names, so that a group has the same one
everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.code.late import Late
from memreplay.analysis.code.operators import backward_of, node_in, operator_in, operator_of
from memreplay.analysis.code.plumbing import shown_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.snapshot.model import Frame

# Files of notebooks' cells. ipykernel names them after a hash of the cell's text, older versions of
# IPython and Colab after the number that stands before the cell.
_NUMBERED_CELL = Late(r"(?:^<|[/\\])ipython-input-(\d{1,9})-\w+(?:>|\.py)?$", ("ipython-input-",))
_CELL = Late(
    r"[/\\](?:ipykernel_\d+[/\\]|\.ipykernel[/\\]\d+[/\\]command-+|ipython-input-)(\d+)(?:-\d+)?(?:\.py)?$",
    ("ipykernel", "ipython-input-"),
)


class Name(Struct, frozen=True):
    """What a frame or a stack is called."""

    function: str
    """What ran."""
    file: str = ""
    """Where, as a person reads it: the path, or the cell of a notebook."""
    line: int = 0
    """The line; 0 if it is not known, or none of a source file."""
    note: str = ""
    """What tells stacks with the same place apart: the operator that it called."""
    source: str = ""
    """The text of the line, if the recording has it."""

    @property
    def place(self) -> str:
        """`train.py:12`; empty if nothing is known."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file

    @property
    def words(self) -> str:
        """`forward train.py:12 aten::linear`."""
        return " ".join(filter(None, (self.function, self.place, self.note)))


def name_of_stack(
    frames: Sequence[Frame], user: Sequence[int], libraries: Sequence[int] = ()
) -> Name:
    """The name of a stack: the innermost frame of the user's code with the operator that it called;
    else the node of autograd or the operator that ran. `user` and `libraries` as in Group."""
    if not frames:
        return Name("")
    at = shown_frame(frames, user)
    if user:
        inner = min((at, *libraries[:1]))
        return replace(place_of(frames[at]), note=operator_of(frames[:inner]))
    found = name_of_frame(frames[at])
    if backward_of(frames[at : at + 1]):
        return replace(found, note=operator_of(frames))
    return found


def name_of_frame(frame: Frame) -> Name:
    """The name of a frame that stands for a whole stack: a node or an operator, else its place."""
    short = short_function(frame.function)
    return Name(short) if short else place_of(frame)


def short_function(function: str) -> str:
    """`AddmmBackward0 (autograd)` or `aten::sum (PyTorch's own)`, if a function of C++ stands for
    that; else empty."""
    if node := node_in(function):
        return f"{node} (autograd)"
    if operator := operator_in(function):
        return f"aten::{operator} (PyTorch's own)"
    return ""


def place_of(frame: Frame) -> Name:
    """The name of a frame among others of its stack: its function and its place."""
    function = without_arguments(frame.function) if "::" in frame.function else frame.function
    # "??" is how the C++ unwinder says that it knows no file.
    if frame.file in ("", "??"):
        unknown = "(C++, no file known)" if frame.file else "(no file known)"
        return Name(function or unknown)
    source = frame.source or ""
    # Of a shared library the unwinder says how far into it, which is no line.
    library = frame.file.rpartition("/")[2]
    line = 0 if library.endswith(".so") or ".so." in library else frame.line
    cell = cell_of(frame.file)
    if cell and (function == "<module>" or function.startswith("<cell line")):
        function = ""  # what is not in a function needs no other name than its cell's
    return Name(function, cell or frame.file, line, source=source)


def cell_of(file: str) -> str:
    """`In [5]` or `cell 3105878423`, if a file is a cell of a notebook; else empty."""
    if found := _NUMBERED_CELL.search(file):
        return f"In [{found[1]}]"
    found = _CELL.search(file)
    return f"cell {found[1]}" if found else ""


def without_arguments(function: str) -> str:
    """`at::native::copy_` of its whole signature, as C++ spells it out."""
    name = function.removesuffix(" const")
    if not name.endswith(")"):
        return function
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return name[:at] or function
    return function
