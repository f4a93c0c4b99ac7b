"""List the snapshots below the folders, and describe each in one line."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from fnmatch import fnmatchcase
from threading import Lock
from typing import TYPE_CHECKING

from memreplay.errors import UsageError
from memreplay.io.choosing import begins_with_snapshot, prefer_trace_plots
from memreplay.io.names import natural, page_names, pickle_names, snapshot_names
from memreplay.mcp.allowed import Identity
from memreplay.mcp.calls import ReportedError
from memreplay.render.compact import CompactLine, compact_table
from memreplay.render.units import counted, size, time_utc
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.mcp.allowed import Allowed
    from memreplay.mcp.arguments import FilesArguments
    from memreplay.mcp.calls import ToolCall
    from memreplay.snapshot.snapshot import Snapshot

MOST_ENTRIES = 50_000  # maximum number of directory entries to scan
MOST_LEVELS = 8
MOST_PAGES = 2_000  # maximum number of HTML pages to look into
CHECK_S = 20.0  # time for opening files, in seconds per call
_REMEMBERED = 1000  # maximum number of cached lines


class Checked:
    """Results cached for each file, so that another call continues where the last one stopped."""

    def __init__(self) -> None:
        self._lines: OrderedDict[Identity, str] = OrderedDict()
        self._lock = Lock()

    def get(self, identity: Identity) -> str | None:
        """Return a file's line; None if the file wasn't checked or has changed."""
        with self._lock:
            return self._lines.get(identity)

    def add(self, identity: Identity, line: str) -> None:
        """Cache a line."""
        with self._lock:
            self._lines[identity] = line
            while len(self._lines) > _REMEMBERED:
                self._lines.popitem(last=False)


def list_files(
    arguments: FilesArguments, tool_call: ToolCall, checked: Checked, *, seconds: float = CHECK_S
) -> list[CompactLine]:
    """Return a line per file, in natural order. With `check`, spend up to `seconds` on describing
    the contents.
    """
    names, whole = snapshots_below(tool_call.allowed)
    match = arguments.match  # models also pass patterns
    wanted = [name for name in names if match in name or fnmatchcase(name, match)]
    lines = [CompactLine(clean(_total(len(wanted), len(names), match, tool_call.allowed)))]
    until = time.monotonic() + seconds
    rows: list[tuple[str, ...]] = []
    skipped = 0
    for name in wanted:
        tool_call.check()
        try:
            file = tool_call.allowed.file(name)
        except UsageError:
            continue  # the path has disappeared, or isn't a file any more
        row = (name, size(file.identity.size), _seconds(file.identity.mtime_ns))
        if not arguments.check:
            rows.append(row)
            continue
        line = checked.get(file.identity)
        if line is None and time.monotonic() < until:
            line = _line(tool_call, name)
            checked.add(file.identity, line)
        skipped += line is None
        rows.append((name, size(file.identity.size), line or "not checked yet"))
    titles = ("file", "size", "found" if arguments.check else "written")
    if rows:
        lines += compact_table(titles, rows)
    if skipped:
        words = f"{counted(skipped, 'file')} not checked yet; call again to continue"
        lines.append(CompactLine(f"note: {words}"))
    if not whole:
        words = (
            "the folders have more files than this tool searches; start the server with"
            " smaller ones"
        )
        lines.append(CompactLine(f"note: {words}"))
    return lines


def _seconds(ns: int) -> str:
    """Format a modification time in seconds."""
    return time_utc(ns // 10**9 * 10**6).replace(".000000", "")


def _total(found: int, there: int, match: str, allowed: Allowed) -> str:
    folders = ", ".join(allowed.roots)
    if not there:
        return f"no snapshot below {folders}: no file name ends in .pkl, .pickle or .json"
    if match:
        return f"{found} of {counted(there, 'snapshot')} below {folders} with '{match}' in the name"
    return f"{counted(found, 'snapshot')} below {folders}"


def _line(tool_call: ToolCall, name: str) -> str:
    """Describe a file, or why it can't be read."""
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.report.find import ReportOptions, overview
    from memreplay.commands.report.text import report_line

    selection = Selection(fold=True, rules=tool_call.rules)

    def work(snapshot: Snapshot) -> str:
        return report_line(overview(snapshot, selection, ReportOptions()))

    try:
        return tool_call.about(name, work)
    except (ReportedError, UsageError) as error:
        return str(error).removeprefix(f"{name}: ")


def snapshots_below(allowed: Allowed) -> tuple[list[str], bool]:
    """Return the snapshots and pages by name, and whether the list is complete. The list isn't
    complete if there are too many files.

    Skips links to folders, hidden folders, and pages next to their snapshots.
    """
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
            pages += [here[name] for name in prefer_trace_plots(held)]
            found += [here[name] for name in here.keys() - set(asked)]
    return _in_order(found, pages), whole


def _candidates(names: list[str]) -> list[str]:
    """Return the names of a folder's snapshots, and of its pages without a matching pickle."""
    from memreplay.analysis.comparing.dumps import without_redundant_pages
    from memreplay.io.listing import Listed

    some = [name for name in names if snapshot_names([name])]
    pages = page_names(names)
    if pages:
        listed = [Listed(name, name, -1, "") for name in (*pickle_names(some), *pages)]
        pages = page_names(one.name for one in without_redundant_pages(listed))
    return [*some, *pages]


def _holds_snapshot(allowed: Allowed, name: str) -> bool:
    try:
        with allowed.open(allowed.file(name)) as page:
            return begins_with_snapshot(page)
    except (OSError, UsageError):
        return False


def _in_order(found: list[str], pages: list[str]) -> list[str]:
    return sorted([*snapshot_names(dict.fromkeys(found)), *dict.fromkeys(pages)], key=natural)
