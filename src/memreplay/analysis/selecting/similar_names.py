"""Find frames with names similar to a name that doesn't occur."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from memreplay.analysis.code.plumbing import LIBRARY, file_rank
from memreplay.analysis.groups.ways.base import BEFORE_RECORDING

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot

MOST_NAMES = 2_000  # maximum number of names to compare, because comparing is slow
_SHOWN = 3
_LONGEST = 80  # maximum length of a name to compare, in characters
# Maximum number of characters to compare per name, because comparing takes quadratic time.
_COMPARED = 200
_AT_LINE = re.compile(r"([^/\s:]+):(\d+)$")


def similar_names(snap: Snapshot, pattern: str) -> str:
    """Return text like `near it: model.py:72 (forward), …`, with lines of the file that the pattern
    names, or else with files and functions.
    """
    asked = pattern.replace("\\", "").replace(".*", "").strip()[:_COMPARED]
    if asked == BEFORE_RECORDING:
        return "memory from before the recording has none: --only carried-over shows it"
    lines = _lines(snap)
    if not lines:
        return "the recording has no Python frames"
    at_line = _AT_LINE.search(asked)
    file = at_line[1] if at_line else ""
    if file and file not in lines:
        file = next(iter(get_close_matches(file, _compared(lines), 1)), file)
    if at_line and file in lines:
        wanted = int(at_line[2])
        near = sorted(lines[file], key=lambda one: (abs(one[0] - wanted), one))[:_SHOWN]
        return "near it: " + ", ".join(f"{_cut(file)}:{line} ({_cut(name)})" for line, name in near)
    functions = Counter(name for some in lines.values() for _, name in some)
    names = [name for name, _ in functions.most_common(MOST_NAMES)]
    names = list(dict.fromkeys([*_compared(lines), *_compared(names)]))
    words = (file, *re.findall(r"[\w.]+", asked)) if file else re.findall(r"[\w.]+", asked)
    near_names: list[str] = []
    for word in words:
        near_names += get_close_matches(word, names, _SHOWN, 0.6)
    chosen = list(dict.fromkeys(near_names))[:_SHOWN]
    if chosen:
        return "near it: " + ", ".join(map(_cut, chosen))
    return f"the file has code in {', '.join(map(_cut, list(lines)[:_SHOWN]))}"


def _compared(names: Iterable[str]) -> list[str]:
    return [name for name in islice(names, MOST_NAMES) if len(name) <= _COMPARED]


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _lines(snap: Snapshot) -> dict[str, set[tuple[int, str]]]:
    """Return the frames' (line, function) by file name, user files first."""
    code = snap.code
    ranks: dict[int, int] = {}
    found: dict[tuple[int, str], set[tuple[int, str]]] = {}
    for i in range(code.frames):
        function, file, line = code.frame(i)
        if file not in ranks:
            ranks[file] = file_rank(code.string(file), snap.project)
        if ranks[file] <= LIBRARY and line:
            name = code.string(file).replace("\\", "/").rpartition("/")[2]
            found.setdefault((ranks[file], name), set()).add((line, code.string(function)))
    merged: dict[str, set[tuple[int, str]]] = {}
    for (_, name), lines in sorted(found.items(), key=lambda one: one[0][0]):
        merged.setdefault(name, set()).update(lines)
    return merged
