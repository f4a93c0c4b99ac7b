"""Lists the snapshots below the folders, and says in a line each what is wrong with them."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from fnmatch import fnmatchcase
from threading import Lock
from typing import TYPE_CHECKING

from memreplay.errors import UsageError
from memreplay.io.choosing import begins_with_snapshot, one_of_two
from memreplay.io.names import natural, page_names, pickle_names, snapshot_names
from memreplay.mcp.allowed import Identity
from memreplay.mcp.asking import ToldError
from memreplay.render.compact import CompactLine, compact_table
from memreplay.render.units import counted, size, time_utc

if TYPE_CHECKING:
    from memreplay.mcp.allowed import Allowed
    from memreplay.mcp.arguments import FilesArguments
    from memreplay.mcp.asking import Asking
    from memreplay.snapshot.snapshot import Snapshot

MOST_ENTRIES = 50_000  # of folders that are looked through
MOST_LEVELS = 8
MOST_PAGES = 2_000  # HTML pages whose beginnings are read
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
    """What `allowed` calls the files that are snapshots by their names, and the HTML pages that
    hold one; and whether these are all: not where there are too many files. Links to folders are
    not followed, hidden ones left out, and pages of snapshots that lie beside them."""
    found: list[str] = []
    pages: list[str] = []
    left = MOST_ENTRIES
    pages_left = MOST_PAGES
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
                return _in_order(found, pages), False
            shown = [entry for entry in entries if not entry.name.startswith(".")]
            below = [entry.path for entry in shown if entry.is_dir(follow_symlinks=False)]
            if below and level == MOST_LEVELS:
                whole = False
            elif below:
                folders += [(path, level + 1) for path in below]
            here = {
                name: allowed.name_of(root, os.path.join(folder, name))
                for name in _candidates([entry.name for entry in shown])
                if allowed.may_read(os.path.join(folder, name))
            }
            asked = page_names(here)
            whole = whole and len(asked) <= pages_left
            held = [name for name in asked[:pages_left] if _holds_snapshot(allowed, here[name])]
            pages_left -= min(len(asked), pages_left)
            pages += [here[name] for name in one_of_two(held)]
            found += [here[name] for name in here.keys() - set(asked)]
    return _in_order(found, pages), whole


def _candidates(names: list[str]) -> list[str]:
    """The names in one folder that are a snapshot's, and the pages that are of no pickle there."""
    from memreplay.analysis.comparing.dumps import beside_pages
    from memreplay.io.listing import Listed

    some = [name for name in names if snapshot_names([name])]
    pages = page_names(names)
    if pages:
        listed = [Listed(name, name, -1, "") for name in (*pickle_names(some), *pages)]
        pages = page_names(one.name for one in beside_pages(listed))
    return [*some, *pages]


def _holds_snapshot(allowed: Allowed, name: str) -> bool:
    try:
        with allowed.open(allowed.file(name)) as page:
            return begins_with_snapshot(page)
    except (OSError, UsageError):
        return False


def _in_order(found: list[str], pages: list[str]) -> list[str]:
    return sorted([*snapshot_names(dict.fromkeys(found)), *dict.fromkeys(pages)], key=natural)
