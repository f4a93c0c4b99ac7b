"""List a folder's snapshots repeatedly, reading the folder only after changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import NamedTuple

from memreplay.io.choosing import snapshots_among
from memreplay.io.names import snapshot_names
from memreplay.io.walking import is_file

MOST_LEVELS = 32  # number of levels of subfolders to search
# Resolution of a folder's modification time, in seconds. Two changes within this time can look like
# one.
COARSE_S = 3.0
# Some file systems don't update a folder's time, so read the folder anyway after this number of
# seconds.
ANYWAY_S = 30.0


class Listing(NamedTuple):
    """A folder's snapshots and their states, by relative name; whether subfolders were skipped;
    errors; and the entries that are named like a snapshot but aren't regular files.
    """

    files: dict[str, os.stat_result]
    folders: bool
    trouble: str
    odd: tuple[str, ...] = ()


class _Level(NamedTuple):
    """A folder's identity, times and contents when it was last read."""

    state: tuple[int, int]
    changed: float
    read: float
    names: list[str]
    folders: list[str]
    odd: list[str]


class Lister:
    """Lists one folder and, as long as the folder itself has no snapshots, also its subfolders
    (`iteration_10/…`). `deep`: always include subfolders, but don't follow links. `clock`:
    monotonic seconds.
    """

    def __init__(self, folder: str, *, deep: bool, clock: Callable[[], float]) -> None:
        self.folder = folder
        self.deep = deep
        self.clock = clock
        self._levels: dict[str, _Level] = {}
        self._nested = False  # the snapshots were in subfolders, so keep looking there

    def look(self) -> Listing:
        """Return the snapshots that are there now: regular files that aren't hidden (see
        `folders.snapshot_files`). Raises OSError if the folder can't be listed.
        """
        levels: dict[str, _Level] = {}
        found: dict[str, os.stat_result] = {}
        inside, trouble = False, ""
        odd: list[str] = []
        deepest = 0
        left = [("", 0)]
        while left:
            below, depth = left.pop()
            try:
                level = levels[below] = self._level(below)
            except OSError as error:
                if not below:
                    raise
                if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                    trouble = trouble or f"{below}: {_words(error)}"
                continue
            odd += [os.path.join(below, name) for name in level.odd]
            for name in level.names:
                path = os.path.join(below, name)
                try:
                    status = os.stat(os.path.join(self.folder, path))
                except OSError as error:
                    if isinstance(error, PermissionError):
                        trouble = trouble or f"{path}: {_words(error)}"
                    continue
                if is_file(status):
                    found[path] = status
                elif not stat.S_ISDIR(status.st_mode):
                    odd.append(path)
            if not below:  # skip links to something that isn't a file
                deepest = self._depth(outside=bool(found))
            if depth < deepest:
                left += [(os.path.join(below, name), depth + 1) for name in level.folders]
            else:
                inside = inside or bool(level.folders)
        # Skip profiler traces, which are in folders next to those of snapshots.
        if kept := snapshot_names(found):
            found = {name: found[name] for name in kept}
        self._levels = levels
        self._nested = self._nested or any(os.path.dirname(name) for name in found)
        return Listing(found, inside, trouble, tuple(odd))

    def _depth(self, *, outside: bool) -> int:
        """Return the number of levels of subfolders to scan. `outside`: whether the folder itself
        has snapshots.
        """
        if self.deep:
            return MOST_LEVELS
        return 1 if self._nested or not outside else 0

    def _level(self, below: str) -> _Level:
        path, now = os.path.join(self.folder, below), self.clock()
        status = os.stat(path)
        state = status.st_ino, status.st_mtime_ns
        before = self._levels.get(below)
        changed = now
        if before is not None and before.state == state:
            if now - before.changed >= COARSE_S and now - before.read < ANYWAY_S:
                return before
            changed = before.changed
        with os.scandir(path) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
        folders = [entry.name for entry in shown if entry.is_dir(follow_symlinks=False)]
        # The target of a link may become a file later.
        files = {
            entry.name
            for entry in shown
            if entry.is_symlink() or entry.is_file(follow_symlinks=False)
        }
        others = {entry.name for entry in shown}.difference(files, folders)
        names = snapshots_among(files, path)
        return _Level(state, changed, now, names, folders, snapshot_names(sorted(others)))


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
