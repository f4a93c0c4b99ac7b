"""Replace several files in a folder together: all or none."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import IO

from memreplay.errors import UsageError
from memreplay.io.whole import LOCK, hold, mode_of, part_name, remove_stale, sync
from memreplay.io.whole_folder import forget, note


class Folder:
    """New files for folder `path`, and the files that they replace.

    Both are kept in a partial folder in `home`, which is the folder itself, or its parent if the
    folder is new.
    """

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
        """Choose another temporary name."""
        self.part = os.path.join(self.home, part_name())
        self.new = os.path.join(self.part, "new")
        self.old = os.path.join(self.part, "old")

    def begin(self) -> None:
        """Create the partial folder and lock it. Raises OSError."""
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
        """Release the lock."""
        held, self.held = self.held, -1
        if held >= 0:
            with suppress(OSError):
                os.close(held)

    def __call__(self, name: str) -> IO[bytes]:
        """Open a new file with this name, which may include subfolders.

        The caller must close it.
        """
        path = os.path.join(self.new, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.names.append(name)
        return open(path, "xb")

    def give_up(self) -> None:
        """Arrange that all new files are discarded at the end."""
        self.kept = False

    def replace(self) -> None:
        """Move the new files to the folder.

        Replaced files are kept in `old` until all new ones are moved. After an error, they are
        moved back. The folder itself is never replaced, because it may be a process's working
        directory and may contain other files.
        """
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
                    f"cannot write all of {self.path}; the previous files are in {self.old}"
                ) from None
            raise
        self.replacing = False
        forget(self.part)
        shutil.rmtree(self.old, ignore_errors=True)

    def _missing(self) -> list[str]:
        """Return the subfolders that don't exist yet, parents first."""
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
        """Flush a new file to disk if it replaces another."""
        if not lies_at(os.path.join(self.path, name)):
            return
        file = os.open(os.path.join(self.new, name), os.O_RDWR)
        try:
            sync(file)
        finally:
            os.close(file)

    def put_back(self) -> None:
        """Undo `replace`, even if a previous call of `put_back` was interrupted.

        The files' locations show how far that call got.
        """
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
        """Remove the partial folder, unless old files in it couldn't be moved back."""
        if not self.replacing:
            # Remove the lock last. Without it, other processes couldn't tell that the rest is
            # abandoned.
            for part in (self.new, self.old, self.part):
                shutil.rmtree(part, ignore_errors=True)
        self.release()

    def undo(self) -> None:
        """Undo everything when the process ends."""
        self.put_back()
        # Threads may still be creating files.
        for _ in range(100):
            shutil.rmtree(self.part, ignore_errors=True)
            if not os.path.lexists(self.part):
                break


def _make_folders(path: str, made: list[str]) -> None:
    """Like os.makedirs; appends the created folders to `made`, parents first."""
    if not os.path.isdir(path):
        _make_folders(os.path.dirname(path), made)
        made.append(path)
        os.mkdir(path)


def lies_at(path: str) -> bool:
    """Return whether anything has this name. Raises OSError if that can't be determined."""
    return mode_of(path, follow_links=False) is not None
