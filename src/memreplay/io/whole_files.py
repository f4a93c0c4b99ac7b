"""Several files that get their names in a folder when all of them are whole: all, or none."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import IO

from memreplay.errors import UsageError
from memreplay.io.whole import LOCK, hold, mode_of, part_name, remove_stale, sync
from memreplay.io.whole_folder import forget, note


class Folder:
    """Files on their way into the folder `path`: those that are made, and those that they replace.

    They are made in a part in `home`: the folder itself, or the one above it if it is new."""

    def __init__(self, path: str, home: str) -> None:
        self.path = path
        self.home = home
        self.name_part()
        self.held = -1
        self.names: list[str] = []
        self.made: list[str] = []
        self.kept = True
        self.replacing = False

    def name_part(self) -> None:
        """Another name for what is not whole yet."""
        self.part = os.path.join(self.home, part_name())
        self.new = os.path.join(self.part, "new")
        self.old = os.path.join(self.part, "old")

    def begin(self) -> None:
        """Makes it, and holds its lock. Raises OSError."""
        while self.held < 0:
            os.mkdir(self.part)
            lock = os.path.join(self.part, LOCK)
            file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            if hold(file, lock):
                self.held = file
            else:
                os.close(file)
                self.name_part()
        os.mkdir(self.new)
        now = os.fstat(self.held).st_mtime
        for place in {self.home, os.path.dirname(self.path)}:
            remove_stale(place, now, self.part)

    def release(self) -> None:
        """The lock is given back."""
        held, self.held = self.held, -1
        if held >= 0:
            with suppress(OSError):
                os.close(held)

    def __call__(self, name: str) -> IO[bytes]:
        """A new file of this name (with folders of its own, where it says so), to be closed."""
        path = os.path.join(self.new, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.names.append(name)
        return open(path, "xb")

    def give_up(self) -> None:
        """Nothing is to be kept."""
        self.kept = False

    def replace(self) -> None:
        """Gives the new files their names in the folder; what had them is in `old` until all have.
        After an error they are put back. The folder itself stays: somebody may stand in it, and
        files of others are there."""
        note(self.part, self.names, self._missing())
        self.replacing = True
        try:
            for name in self.names:
                self._sync(name)
            for name in self.names:
                whole, old = os.path.join(self.path, name), os.path.join(self.old, name)
                _make_folders(os.path.dirname(whole), self.made)
                if lies_at(whole):
                    os.makedirs(os.path.dirname(old), exist_ok=True)
                    os.replace(whole, old)
                os.replace(os.path.join(self.new, name), whole)
        except BaseException:
            try:
                self.put_back()
            except OSError:
                raise UsageError(
                    f"cannot write all of {self.path}; what was there is in {self.old}"
                ) from None
            raise
        self.replacing = False
        forget(self.part)
        shutil.rmtree(self.old, ignore_errors=True)

    def _missing(self) -> list[str]:
        """The folders in it that are not there yet, the outermost first."""
        found: dict[str, None] = {}
        for name in self.names:
            above: list[str] = []
            while (name := os.path.dirname(name)) and not os.path.isdir(
                os.path.join(self.path, name)
            ):
                above.append(name)
            found.update(dict.fromkeys(reversed(above)))
        return list(found)

    def _sync(self, name: str) -> None:
        """Has a new file on the disk, if it takes the place of another."""
        if not lies_at(os.path.join(self.path, name)):
            return
        file = os.open(os.path.join(self.new, name), os.O_RDWR)
        try:
            sync(file)
        finally:
            os.close(file)

    def put_back(self) -> None:
        """Undoes what `replace` did, however far it came, or this: where each file is says that."""
        if not self.replacing:
            return
        for name in self.names:
            whole = os.path.join(self.path, name)
            new, old = os.path.join(self.new, name), os.path.join(self.old, name)
            if not lies_at(new):
                os.replace(whole, new)
            if lies_at(old):
                os.replace(old, whole)
        for one in reversed(self.made):
            with suppress(OSError):
                os.rmdir(one)
        self.replacing = False
        forget(self.part)
        shutil.rmtree(self.old, ignore_errors=True)

    def remove(self) -> None:
        """Removes what was made, and what is in `part` but old files that are not put back."""
        if not self.replacing:
            # The lock last: without it nobody knows that the rest is nobody's.
            for part in (self.new, self.old, self.part):
                shutil.rmtree(part, ignore_errors=True)
        self.release()

    def undo(self) -> None:
        """All is as it was; of a process that ends."""
        self.put_back()
        # All that is left is not needed. Threads may still be making files.
        for _ in range(100):
            shutil.rmtree(self.part, ignore_errors=True)
            if not os.path.lexists(self.part):
                break


def _make_folders(path: str, made: list[str]) -> None:
    """As os.makedirs; those that were not there are added to `made`, the outermost first."""
    if not os.path.isdir(path):
        _make_folders(os.path.dirname(path), made)
        made.append(path)
        os.mkdir(path)


def lies_at(path: str) -> bool:
    """Whether something has this name. Raises OSError where that cannot be told."""
    return mode_of(path, follow_links=False) is not None
