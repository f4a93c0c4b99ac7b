"""The text of the program's own lines that stacks name: what `record(…, source=True)` adds.

Only the standard library is needed: a dry run loads this file by its path, in any Python.
"""

from __future__ import annotations

import dis
import linecache
import os
import sys
import time
import warnings

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType
    from typing import Any

    Frames = list[dict[str, Any]]

MOST_BYTES = 1 << 20  # of all texts, and of the names of their files
MOST_LINES = 10_000
LONGEST = 200  # characters of a line
PYTHON = (".py", ".pyw")
# Cells of older versions of IPython, and lines that were typed into Python. Other names in angle
# brackets are those of code that a library made.
TYPED = ("<ipython-input-", "<python-input-")
MODULE = "<module>"
# What torch.compile leaves of a function behind a break in its graph: its lines are the function's.
RESUMED = "torch_dynamo_resume_in_"
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
LOADED = time.time()


def source_lines(
    snapshot: dict[str, Any], is_library: Callable[[str], bool]
) -> dict[str, dict[str, str]]:
    """Return the texts of lines by their files and numbers, as a snapshot keeps them
    (docs/format.md).

    These are the lines of the program's own code, notebooks' cells among them, that frames of the
    snapshot name, until there are MOST_BYTES or MOST_LINES of them. Code that was compiled from a
    text under the name of a file has other lines than that file: what may be such code has none.
    """
    began = process_began()
    found: dict[str, dict[str, str]] = {}
    files: dict[str, list[str]] = {}
    codes: dict[str, set[tuple[str, int]] | None] = {}
    room, lines = MOST_BYTES, MOST_LINES

    def is_own(file: str) -> bool:
        return not file.startswith(PACKAGE) and not is_library(file)

    for (file, line), names in places(snapshot, is_own).items():
        if file not in files:
            files[file] = lines_of(file, began) if is_own(file) else []
        if not 0 < line <= len(files[file]):
            continue
        if file not in codes:
            codes[file] = names_of_lines(files[file], file)
        known = codes[file]
        if None in names or (
            known is not None
            and any((name, line) not in known for name in names if not is_resumed(name))
        ):
            continue
        text = files[file][line - 1].strip()[:LONGEST]
        taken = len(text.encode("utf-8", "surrogatepass"))
        taken += 0 if file in found else len(file.encode("utf-8", "surrogatepass"))
        if not text or taken > room:
            continue
        room -= taken
        lines -= 1
        found.setdefault(file, {})[str(line)] = text
        if not lines:
            break
    return found


def places(
    snapshot: dict[str, Any], is_own: Callable[[str], bool]
) -> dict[tuple[str, int], set[str | None]]:
    """The file and line of each frame, and the names of the functions there; None among them if the
    program itself may have run a text under the name of that file.

    PyTorch makes a list of frames for each event, of frames that are the same objects.
    """
    known: set[int] = set()
    met: dict[tuple[str, int], set[str | None]] = {}
    for frames in lists_of_frames(snapshot):
        if known.issuperset(map(id, frames)):
            continue
        for at, frame in enumerate(frames):
            if id(frame) in known:
                continue
            known.add(id(frame))
            file, line, name = (frame.get(key) for key in ("filename", "line", "name"))
            if isinstance(file, str) and isinstance(line, int):
                by = caller(frames, at) if name == MODULE else None
                ran = by is not None and is_own(by)
                met.setdefault((file, line), set()).add(None if ran else str(name))
    return met


def caller(frames: Frames, at: int) -> str | None:
    """The file of the Python code that called a frame; None if there is none. Import, and whatever
    runs programs, call a file's own lines; the program itself calls only what it compiled."""
    for frame in frames[at + 1 :]:
        file = frame.get("filename")
        if isinstance(file, str) and (file.endswith(PYTHON) or file.startswith("<")):
            return file
    return None


def names_of_lines(lines: list[str], file: str) -> set[tuple[str, int]] | None:
    """The functions of a file's text and the lines that each has code on; None if it is no Python
    only, as of a cell with magics."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile("".join(lines), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: set[tuple[str, int]] = set()
    waiting: list[CodeType] = [code]
    while waiting:
        code = waiting.pop()
        found.update((code.co_name, line) for _, line in dis.findlinestarts(code) if line)
        waiting += [one for one in code.co_consts if isinstance(one, type(code))]
    return found


def is_resumed(name: str | None) -> bool:
    return name is not None and name.startswith(RESUMED)


def lists_of_frames(snapshot: dict[str, Any]) -> Iterator[Frames]:
    segments = snapshot.get("segments") or ()
    blocks = [block for one in segments for block in one.get("blocks") or ()]
    tables: Iterable[Iterable[dict[str, Any]]] = (
        *(snapshot.get("device_traces") or ()),
        segments,
        blocks,
    )
    for rows in tables:
        for row in rows:
            if frames := row.get("frames"):
                yield frames


def lines_of(file: str, began: float) -> list[str]:
    """The lines of a file of Python or of a notebook's cell, as the process runs it; none if that
    isn't known, as of a file that was changed since the process began."""
    kept = linecache.cache.get(file)
    if file.startswith("<"):
        return linecache.getlines(file) if kept and file.startswith(TYPED) else []
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if not kept and not file.endswith(PYTHON) and file != script:
        return []
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        # A cell has no file. Of others linecache would look for one of the same name elsewhere.
        return linecache.getlines(file) if kept else []
    # Of a file that took the place of another with its time, only this system's own time tells.
    changed = max(found.st_mtime, found.st_ctime)
    return linecache.getlines(file) if changed <= began + 1 else []


def process_began() -> float:
    """When this process began, in seconds since 1970. Where that can't be asked, when this file was
    loaded, which is later."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError, ValueError, IndexError):
        return LOADED
    began = time.time() - age
    return began if ticks and age > 0 else LOADED
