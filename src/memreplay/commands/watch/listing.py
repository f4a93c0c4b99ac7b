"""Lists the snapshots of a folder again and again; reads the folder only once it has changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import NamedTuple

from memreplay.io.choosing import snapshots_among
from memreplay.io.names import snapshot_names

MOST_LEVELS = 32  # of folders in folders
# A folder's time may be as coarse as this, in seconds: for so long after a change another one may
# not show.
COARSE_S = 3.0
# Some file systems keep no time of folders: after so long one is read in any case.
ANYWAY_S = 30.0


class Listing(NamedTuple):
    """The snapshots of a folder by their names from there on, and how each lies there; whether
    there are folders that were not looked into, and why some of what is in it could not be; what
    has a snapshot's name and is no regular file."""

    files: dict[str, os.stat_result]
    folders: bool
    trouble: str
    odd: tuple[str, ...] = ()


class _Level(NamedTuple):
    """A folder as it was when it was read: what tells that it has changed, when that was seen and
    when it was read, and what is in it."""

    state: tuple[int, int]
    changed: float
    read: float
    names: list[str]
    folders: list[str]
    odd: list[str]


class Lister:
    """Lists one folder, and the folders in it while it has no snapshot itself (`iteration_10/…`).
    `deep` looks into all folders below it, too, not through links; `clock` counts seconds."""

    def __init__(self, folder: str, *, deep: bool, clock: Callable[[], float]) -> None:
        self.folder = folder
        self.deep = deep
        self.clock = clock
        self._levels: dict[str, _Level] = {}
        self._nested = False  # its snapshots were in the folders in it, and stay there

    def look(self) -> Listing:
        """What is there now: regular files whose names are those of snapshots (as
        `folders.snapshot_files` has them), without hidden ones. Raises OSError where the folder
        itself cannot be listed."""
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
                if stat.S_ISREG(status.st_mode):
                    found[path] = status
                elif not stat.S_ISDIR(status.st_mode):
                    odd.append(path)
            if not below:  # a link to what is no file doesn't count
                deepest = self._depth(outside=bool(found))
            if depth < deepest:
                left += [(os.path.join(below, name), depth + 1) for name in level.folders]
            else:
                inside = inside or bool(level.folders)
        # Traces of the profiler lie in folders beside those of the snapshots.
        if kept := snapshot_names(found):
            found = {name: found[name] for name in kept}
        self._levels = levels
        self._nested = self._nested or any(os.path.dirname(name) for name in found)
        return Listing(found, inside, trouble, tuple(odd))

    def _depth(self, *, outside: bool) -> int:
        """How many levels of folders are looked into; `outside`: the folder has some itself."""
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
        # A link may lead to a file later on.
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
