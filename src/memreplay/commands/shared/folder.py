"""Writes several files into a folder: all of them, or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from memreplay.commands.shared.ending import undone_by_signals
from memreplay.errors import UsageError
from memreplay.io.whole import LOCK, hold, mode_of, part_name, remove_stale, sync
from memreplay.io.whole_folder import forget, note


class Folder:
    """The files of a `folder_output`: those that are made, and those that they replace."""

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
                if _lies_at(whole):
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
        if not _lies_at(os.path.join(self.path, name)):
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
            if not _lies_at(new):
                os.replace(whole, new)
            if _lies_at(old):
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


@contextmanager
def folder_output(
    path: str, names: Sequence[str], others: Sequence[str] = (), *, force: bool
) -> Iterator[Folder]:
    """A maker of files that get their names in the folder `path` when all of them are whole.

    `names` are those that will be made: none of them may be there yet, unless `force`. `others` are
    those that do not fit beside them, and may not be there at all: they are of something else. All
    other files stay. After an error the folder is as it was. Raises UsageError before anything is
    done, or, where they are, when files that were there cannot be put back.
    """
    path = os.path.realpath(path)
    fresh = not _is_there(path)
    if not fresh and not os.path.isdir(path):
        raise UsageError(f"{path} exists, and is not a folder")
    for place in {path, os.path.dirname(path)}:
        remove_stale(place, None)  # with old files that have to be put back
    if not fresh:
        _check(path, names, others, force=force)
    home = os.path.dirname(path) if fresh else path
    if not os.path.isdir(home):
        raise UsageError(f"cannot write {path}: there is no directory {home}")
    folder = Folder(path, home)
    with undone_by_signals(folder.undo):
        try:
            folder.begin()
            yield folder
            if folder.kept and fresh:
                os.rename(folder.new, path)
            elif folder.kept:
                folder.replace()
        finally:
            folder.remove()


def _make_folders(path: str, made: list[str]) -> None:
    """As os.makedirs; those that were not there are added to `made`, the outermost first."""
    if not os.path.isdir(path):
        _make_folders(os.path.dirname(path), made)
        made.append(path)
        os.mkdir(path)


def _check(path: str, names: Sequence[str], others: Sequence[str], *, force: bool) -> None:
    for whole in (os.path.join(path, name) for name in names):
        if os.path.isdir(whole) and not os.path.islink(whole):
            raise UsageError(f"{whole} is a folder, but a file has to go there")
        while (whole := os.path.dirname(whole)) != path:
            if os.path.lexists(whole) and not os.path.isdir(whole):
                raise UsageError(f"{whole} exists, and is not a folder")
    there = [name for name in names if _is_there(os.path.join(path, name))]
    if there and not force:
        raise UsageError(
            f"{os.path.join(path, there[0])} already exists; give --force to replace it"
        )
    foreign = [name for name in others if _is_there(os.path.join(path, name))]
    if foreign:
        raise UsageError(
            f"{os.path.join(path, foreign[0])} may belong to another snapshot: remove it, export"
            " it too, or name another folder"
        )


def _is_there(path: str) -> bool:
    """Whether something has this name. Raises UsageError where that cannot be told."""
    try:
        return _lies_at(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or '').lower()}") from None


def _lies_at(path: str) -> bool:
    """Whether something has this name. Raises OSError where that cannot be told."""
    return mode_of(path, follow_links=False) is not None
