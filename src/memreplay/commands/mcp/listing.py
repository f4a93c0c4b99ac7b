"""Lists the snapshots below the folders, and says in a line each what is wrong with them."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from fnmatch import fnmatchcase
from threading import Lock
from typing import TYPE_CHECKING

from memreplay.commands.mcp.allowed import Identity
from memreplay.commands.mcp.asking import ToldError
from memreplay.errors import UsageError
from memreplay.io.names import natural, snapshot_names
from memreplay.render.compact import CompactLine, compact_table
from memreplay.render.units import counted, size, time_utc

if TYPE_CHECKING:
    from memreplay.commands.mcp.allowed import Allowed
    from memreplay.commands.mcp.arguments import FilesArguments
    from memreplay.commands.mcp.asking import Asking
    from memreplay.snapshot.snapshot import Snapshot

MOST_ENTRIES = 50_000  # of folders that are looked through
MOST_LEVELS = 8
CHECK_S = 20.0  # a call opens files for so long
_REMEMBERED = 1000  # lines of files that were checked


class Checked:
    """What was found in files, so that a second call goes on where the first one stopped."""

    def __init__(self) -> None:
        self._lines: OrderedDict[Identity, str] = OrderedDict()
        self._lock = Lock()

    def get(self, identity: Identity) -> str | None:
        """The line of a file; None where it was not checked, or is another one now."""
        with self._lock:
            return self._lines.get(identity)

    def add(self, identity: Identity, line: str) -> None:
        """Remember a line."""
        with self._lock:
            self._lines[identity] = line
            while len(self._lines) > _REMEMBERED:
                self._lines.popitem(last=False)


def list_files(
    arguments: FilesArguments, asking: Asking, checked: Checked, *, seconds: float = CHECK_S
) -> list[CompactLine]:
    """A line a file, in natural order; with `check` what is in each, as long as `seconds` last."""
    names, whole = snapshots_below(asking.allowed)
    match = arguments.match  # models write patterns, too
    wanted = [name for name in names if match in name or fnmatchcase(name, match)]
    lines = [CompactLine(_total(len(wanted), len(names), match, asking.allowed))]
    until = time.monotonic() + seconds
    rows: list[tuple[str, ...]] = []
    skipped = 0
    for name in wanted:
        asking.check()
        try:
            file = asking.allowed.file(name)
        except UsageError:
            continue  # it went, or became something else
        row = (name, size(file.identity.size), _seconds(file.identity.mtime_ns))
        if not arguments.check:
            rows.append(row)
            continue
        line = checked.get(file.identity)
        if line is None and time.monotonic() < until:
            line = _line(asking, name)
            checked.add(file.identity, line)
        skipped += line is None
        rows.append((name, size(file.identity.size), line or "not checked yet"))
    titles = ("file", "size", "found" if arguments.check else "written")
    if rows:
        lines += compact_table(titles, rows)
    if skipped:
        words = f"{counted(skipped, 'file')} not checked yet: call again to go on"
        lines.append(CompactLine(f"note: {words}"))
    if not whole:
        words = "there is more in the folders than is looked through here: start with smaller ones"
        lines.append(CompactLine(f"note: {words}"))
    return lines


def _seconds(ns: int) -> str:
    """A time, as no one asks for more than seconds of when a file was written."""
    return time_utc(ns // 10**9 * 10**6).replace(".000000", "")


def _total(found: int, there: int, match: str, allowed: Allowed) -> str:
    folders = ", ".join(allowed.roots)
    if not there:
        return f"no snapshot below {folders}: no name ends in .pkl, .pickle or .json"
    if match:
        return f"{found} of {counted(there, 'snapshot')} below {folders} with {match!r} in the name"
    return f"{counted(found, 'snapshot')} below {folders}"


def _line(asking: Asking, name: str) -> str:
    """What is in a file, or why it cannot be read."""
    from memreplay.commands.report.find import overview
    from memreplay.commands.report.text import report_line

    def work(snapshot: Snapshot) -> str:
        return report_line(overview(snapshot, fold=True, rules=asking.rules))

    try:
        return asking.about(name, work)
    except (ToldError, UsageError) as error:
        return str(error).removeprefix(f"{name}: ")


def snapshots_below(allowed: Allowed) -> tuple[list[str], bool]:
    """What `allowed` calls the files that are snapshots by their names; and whether these are all:
    not where there are too many files. Links to folders are not followed, hidden ones left out."""
    found: list[str] = []
    left = MOST_ENTRIES
    whole = True
    for root in allowed.roots:
        folders = [(root, 0)]
        while folders:
            folder, level = folders.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            left -= len(entries)
            if left < 0:
                return _in_order(found), False
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    whole = whole and level < MOST_LEVELS
                    if level < MOST_LEVELS:
                        folders.append((entry.path, level + 1))
                elif snapshot_names([entry.name]) and allowed.may_read(entry.path):
                    found.append(allowed.name_of(root, entry.path))
    return _in_order(found), whole


def _in_order(found: list[str]) -> list[str]:
    return sorted(snapshot_names(dict.fromkeys(found)), key=natural)
