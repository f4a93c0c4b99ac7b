"""Tells which snapshot files of folders are whole and not listed yet: by stat, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from memreplay.commands.watch.listing import Lister
from memreplay.io.names import natural

# A file of which reading fails may still be written to: it is not given up before it has been
# unchanged for so many times as long as others.
PATIENCE = 5


class File:
    """A file that is followed: how it lay there at the last look, and what became of it."""

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
        self.since = since  # when it was first seen so
        self.tried = False  # reading it failed, and it may not be whole
        self.done = False  # as it lies there now
        self.denied = False  # by its permissions, as far as one knows
        self.listed = False
        self.error = ""  # of the last line that was of it
        self.exit_code = 0

    @property
    def path(self) -> str:
        """Its path, with the folder as that was named."""
        return os.path.join(self.folder, self.name)

    @property
    def time_us(self) -> int:
        """When it was last written, in microseconds since 1970."""
        return self.status.st_mtime_ns // 1000

    def differs(self, status: os.stat_result) -> bool:
        """Whether it was written to, or is another file. Not by its links: a recorder gives a file
        its name by one, and takes another away."""
        if self.denied and status.st_ctime_ns != self.status.st_ctime_ns:
            return True
        mine = self.status
        return (status.st_ino, status.st_size, status.st_mtime_ns) != (
            mine.st_ino,
            mine.st_size,
            mine.st_mtime_ns,
        )

    def begin_again(self, status: os.stat_result, now: float) -> None:
        """It has changed."""
        self.status = status
        self.since = now
        self.tried = self.done = self.denied = False


class Look(NamedTuple):
    """What one look at the folders found: files to be read now, the oldest first; files that are
    gone before they were read; words to say."""

    due: list[File]
    gone: list[File]
    notes: list[str]


class Following:
    """The files of folders, from one look to the next.

    `settle` is how many seconds a file has to be unchanged before it is read. `deep` looks into the
    folders in each, too; `new` leaves out what is there at the first look. `clock` counts seconds
    from anywhere on, `wall` since 1970.
    """

    def __init__(
        self,
        folders: Sequence[str],
        *,
        settle: float,
        deep: bool,
        new: bool,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        # The first name of each; what it leads to may change, where it is a link.
        names = {os.path.realpath(folder): folder for folder in reversed(folders)}
        self.folders = tuple(
            folder for folder in dict.fromkeys(folders) if folder in names.values()
        )
        self._listers = {folder: Lister(folder, deep=deep, clock=clock) for folder in self.folders}
        self.settle = settle
        self.deep = deep
        self.new = new
        self.clock = clock
        self.wall = wall
        self.files: dict[str, dict[str, File]] = {folder: {} for folder in self.folders}
        self.troubles: dict[str, str] = {}
        self._odd: set[str] = set()
        self._first = True

    @property
    def patience(self) -> float:
        """Seconds that a file has to be unchanged until an error of reading it is believed."""
        return PATIENCE * self.settle

    @property
    def pending(self) -> list[File]:
        """The files that are neither read nor given up."""
        return [file for files in self.files.values() for file in files.values() if not file.done]

    def quiet(self, file: File) -> float:
        """Seconds for which a file has been unchanged."""
        return self.clock() - file.since

    def look(self) -> Look:
        """Look at all folders once."""
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
            # What is known of its files is kept: a server may be away for a while.
            self._say(folder, _folder_words(error), found)
            return
        self._say(folder, trouble, found)
        for name in odd:
            if (path := os.path.join(folder, name)) not in self._odd:
                self._odd.add(path)
                found.notes.append(
                    f"{path}: this is a pipe or a device, and isn't read: write snapshots to files"
                )
        if self._first and folders and not self.deep:
            found.notes.extend(self._below(folder, files))
        for name, status in files.items():
            file = known.get(name)
            if file is None:
                # Of one that is there at the start the file system says how long it has been so.
                age = max(self.wall() - status.st_mtime, 0.0) if self._first else 0.0
                file = known[name] = File(folder, name, status, now - age)
                file.done = self.new and self._first
            elif file.differs(status):
                file.begin_again(status, now)
            wait = self.patience if file.tried else self.settle
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
        """What to say of the folders that are not followed: that there are snapshots in them."""
        try:
            there = Lister(folder, deep=True, clock=self.clock).look().files.keys() - set(files)
        except OSError:  # it went: the next look says so
            return []
        if there:
            example = min(there, key=natural)
            n = f"{len(there):,} snapshots" if len(there) > 1 else "1 snapshot"
            return [f"{folder}: {n} further below left out ({example}); -r follows all folders"]
        return [] if files else [f"{folder}: no snapshot yet; with -r all folders below count, too"]

    def _say(self, folder: str, trouble: str, found: Look) -> None:
        """A trouble once, and that it is over."""
        before = self.troubles.get(folder, "")
        if trouble == before:
            return
        self.troubles[folder] = trouble
        found.notes.append(f"{folder}: {trouble or 'it can be looked at now'}")


def _folder_words(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such folder yet"
    if isinstance(error, NotADirectoryError):
        return "this is no folder"
    return f"it cannot be listed: {(error.strerror or str(error)).lower()}"
