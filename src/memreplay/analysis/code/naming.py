"""Name frames and stacks, and thereby the groups in all output.

Text, JSON, tables, pages and the explorer all use these names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memreplay.analysis.code.operators import backward_of, node_in, operator_in, operator_of
from memreplay.analysis.code.plumbing import shown_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.snapshot.model import Frame

# File names of notebook cells. ipykernel uses a hash of the cell; older IPython versions and Colab
# start with the cell's number.
_NUMBERED_CELL = r"(?:^<|[/\\])ipython-input-(\d{1,9})-\w+(?:>|\.py)?$"
_CELL = (
    r"[/\\](?:ipykernel_\d+[/\\]|\.ipykernel[/\\]\d+[/\\]command-+|ipython-input-)(\d+)(?:-\d+)?"
    r"(?:\.py)?$"
)


class Name(Struct, frozen=True):
    """The name of a frame or stack."""

    function: str
    """Function."""
    file: str = ""
    """The file as displayed, which is a path or a notebook cell."""
    line: int = 0
    """Line; 0 if unknown or not in a source file."""
    note: str = ""
    """The operator called, which distinguishes stacks at the same location."""
    source: str = ""
    """Source text of the line, if recorded."""

    @property
    def place(self) -> str:
        """The location, e.g. `train.py:12`; "" if unknown."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file

    @property
    def words(self) -> str:
        """The whole name, e.g. `forward train.py:12 aten::linear`."""
        return " ".join(filter(None, (self.function, self.place, self.note)))


def name_of_stack(
    frames: Sequence[Frame], user: Sequence[int], libraries: Sequence[int] = ()
) -> Name:
    """Name a stack by its innermost user frame and the operator that this frame called. A stack
    without user frames is named by its autograd node or operator. `user` and `libraries` are as in
    Group.
    """
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
    """Name a frame that represents a whole stack: by its autograd node or operator if it has one,
    else by its location.
    """
    short = short_function(frame.function)
    return Name(short) if short else place_of(frame)


def short_function(function: str) -> str:
    """Return `AddmmBackward0 (autograd)` or `aten::sum (PyTorch's own)` for a C++ function that is
    an autograd node or an operator, otherwise "".
    """
    if node := node_in(function):
        return f"{node} (autograd)"
    if operator := operator_in(function):
        return f"aten::{operator} (PyTorch's own)"
    return ""


def place_of(frame: Frame) -> Name:
    """Name a frame within its stack by its function and location."""
    function = without_arguments(frame.function) if "::" in frame.function else frame.function
    # The C++ unwinder uses "??" for an unknown file.
    if frame.file in ("", "??"):
        unknown = "(C++, no file known)" if frame.file else "(no file known)"
        return Name(function or unknown)
    source = frame.source or ""
    # For a shared library, the unwinder reports an offset instead of a line.
    library = frame.file.rpartition("/")[2]
    line = 0 if library.endswith(".so") or ".so." in library else frame.line
    cell = cell_of(frame.file)
    if cell and (function == "<module>" or function.startswith("<cell line")):
        function = ""  # for module-level code in a cell, the cell's name is enough
    return Name(function, cell or frame.file, line, source=source)


def cell_of(file: str) -> str:
    """Return `In [5]` or `cell 3105878423` for a notebook cell, otherwise ""."""
    if "ipykernel" not in file and "ipython-input-" not in file:
        return ""  # without compiling the expressions, which few files need
    if found := re.search(_NUMBERED_CELL, file):
        return f"In [{found[1]}]"
    found = re.search(_CELL, file)
    return f"cell {found[1]}" if found else ""


def without_arguments(function: str) -> str:
    """Drop the arguments from a C++ signature, which leaves text such as `at::native::copy_`."""
    name = function.removesuffix(" const")
    if not name.endswith(")"):
        return function
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return name[:at] or function
    return function
