"""Detect complete new snapshot files in folders, using only stat."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from memreplay.io.names import natural
from memreplay.io.relisting import Lister

if TYPE_CHECKING:
    from memreplay.commands.watch.options import WatchOptions

# A file that can't be read may be incomplete. Give up only once it hasn't changed for this multiple
# of the usual time.
PATIENCE = 5


class File:
    """A file being followed: its last state, and what has been done about it."""

    __slots__ = (
        "changed_ns",
        "denied",
        "done",
        "error",
        "exit_code",
        "folder",
        "listed",
        "name",
        "since",
        "status",
        "tried",
    )

    def __init__(self, folder: str, name: str, status: os.stat_result, since: float) -> None:
        self.folder = folder
        self.name = name
        self.status = status
        self.since = since  # when the current state was first seen
        self.tried = False  # whether reading failed, perhaps because the file was incomplete
        self.done = False  # whether there's nothing left to do unless the file changes
        self.denied = False  # whether the permissions seem to deny reading
        self.listed = False
        self.error = ""  # the error in the last line about this file
        self.exit_code = 0

    @property
    def path(self) -> str:
        """The file's path, including the folder as given."""
        return os.path.join(self.folder, self.name)

    @property
    def time_us(self) -> int:
        """When the file was last written, in microseconds since 1970."""
        return self.status.st_mtime_ns // 1000

    def differs(self, status: os.stat_result) -> bool:
        """Return whether the file was written or replaced.

        Changes of the link count don't matter, because a recorder renames files by adding one link
        and removing another.
        """
        if self.denied and status.st_ctime_ns != self.status.st_ctime_ns:
            return True
        mine = self.status
        return (status.st_ino, status.st_size, status.st_mtime_ns) != (
            mine.st_ino,
            mine.st_size,
            mine.st_mtime_ns,
        )

    def begin_again(self, status: os.stat_result, now: float) -> None:
        """Start over with a file that has changed."""
        self.status = status
        self.since = now
        self.tried = self.done = self.denied = False


class Look(NamedTuple):
    """Result of one scan: files to read now (oldest first), files deleted before they were read,
    and messages.
    """

    due: list[File]
    gone: list[File]
    notes: list[str]


class Following:
    """Tracks the files in folders between scans.

    `clock` returns seconds since some fixed time, `wall` seconds since 1970.
    """

    def __init__(
        self,
        asked: WatchOptions,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        # Maps real paths to the first name given for them. A link's target can change.
        names = {os.path.realpath(folder): folder for folder in reversed(asked.folders)}
        self.folders = tuple(
            folder for folder in dict.fromkeys(asked.folders) if folder in names.values()
        )
        self._listers = {
            folder: Lister(folder, deep=asked.recursive, clock=clock) for folder in self.folders
        }
        self.asked = asked
        self.clock = clock
        self.wall = wall
        self.files: dict[str, dict[str, File]] = {folder: {} for folder in self.folders}
        self.troubles: dict[str, str] = {}
        self._odd: set[str] = set()
        self._first = True

    @property
    def patience(self) -> float:
        """Seconds for which a file has to be unchanged before an error in reading it is
        reported.
        """
        return PATIENCE * self.asked.settle

    @property
    def pending(self) -> list[File]:
        """Files that have been neither read nor given up."""
        return [file for files in self.files.values() for file in files.values() if not file.done]

    def quiet(self, file: File) -> float:
        """Return the seconds since a file's last change."""
        return self.clock() - file.since

    def look(self) -> Look:
        """Scan all folders once."""
        found = Look([], [], [])
        for folder, known in self.files.items():
            self._look_at(folder, known, found)
        self._first = False
        found.due.sort(key=lambda file: (file.status.st_mtime_ns, natural(file.name)))
        return found

    def _look_at(self, folder: str, known: dict[str, File], found: Look) -> None:
        now = self.clock()
        try:
            files, folders, trouble, odd = self._listers[folder].look()
        except OSError as error:
            # Keep what is known about the folder's files, because a server may be temporarily
            # unavailable.
            self._say(folder, _folder_text(error), found)
            return
        self._say(folder, trouble, found)
        for name in odd:
            if (path := os.path.join(folder, name)) not in self._odd:
                self._odd.add(path)
                found.notes.append(
                    f"{path}: pipes and devices aren't read; write snapshots to files"
                )
        if self._first and folders and not self.asked.recursive:
            found.notes.extend(self._below(folder, files))
        for name, status in files.items():
            file = known.get(name)
            if file is None:
                # For files that exist at the start, the file system says how long they've been
                # unchanged.
                age = max(self.wall() - status.st_mtime, 0.0) if self._first else 0.0
                file = known[name] = File(folder, name, status, now - age)
                file.done = self.asked.new and self._first
            elif file.differs(status):
                file.begin_again(status, now)
            wait = self.patience if file.tried else self.asked.settle
            if not file.done and self.quiet(file) >= wait:
                found.due.append(file)
        for name in known.keys() - files.keys():
            file = known.pop(name)
            if (
                not file.done
                and not file.listed
                and not os.path.lexists(os.path.join(folder, name))
            ):
                found.gone.append(file)

    def _below(self, folder: str, files: Collection[str]) -> list[str]:
        """Return a message if subfolders that aren't followed contain snapshots."""
        try:
            there = Lister(folder, deep=True, clock=self.clock).look().files.keys() - set(files)
        except OSError:  # the folder disappeared, which the next scan reports
            return []
        if there:
            example = min(there, key=natural)
            n = f"{len(there):,} snapshots" if len(there) > 1 else "1 snapshot"
            return [f"{folder}: {n} in subfolders left out ({example}); -r follows all folders"]
        return [] if files else [f"{folder}: no snapshot yet; -r also follows all subfolders"]

    def _say(self, folder: str, trouble: str, found: Look) -> None:
        """Report a problem once, and report when it's over."""
        before = self.troubles.get(folder, "")
        if trouble == before:
            return
        self.troubles[folder] = trouble
        found.notes.append(f"{folder}: {trouble or 'it can be read now'}")


def _folder_text(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "the folder doesn't exist yet"
    if isinstance(error, NotADirectoryError):
        return "this isn't a folder"
    return f"it can't be listed: {(error.strerror or str(error)).lower()}"
