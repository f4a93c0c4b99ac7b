"""Writes several files into a folder: all of them, or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from memreplay.commands.shared.ending import undone_by_signals
from memreplay.errors import UsageError


class Folder:
    """The files of a `folder_output`: those that are made, and those that they replace."""

    def __init__(self, path: str, part: str) -> None:
        self.path = path
        self.part = part
        self.new = os.path.join(part, "new")
        self.old = os.path.join(part, "old")
        self.names: list[str] = []
        self.made: list[str] = []
        self.kept = True
        self.replacing = False

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
        self.replacing = True
        try:
            for name in self.names:
                whole, old = os.path.join(self.path, name), os.path.join(self.old, name)
                _make_folders(os.path.dirname(whole), self.made)
                if os.path.lexists(whole):
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
        shutil.rmtree(self.old, ignore_errors=True)

    def put_back(self) -> None:
        """Undoes what `replace` did, however far it came, or this: where each file is says that."""
        if not self.replacing:
            return
        for name in self.names:
            whole = os.path.join(self.path, name)
            new, old = os.path.join(self.new, name), os.path.join(self.old, name)
            if not os.path.lexists(new):
                os.replace(whole, new)
            if os.path.lexists(old):
                os.replace(old, whole)
        for one in reversed(self.made):
            with suppress(OSError):
                os.rmdir(one)
        self.replacing = False
        shutil.rmtree(self.old, ignore_errors=True)

    def remove(self) -> None:
        """Removes what was made, and what is in `part` but old files that are not put back."""
        shutil.rmtree(self.new, ignore_errors=True)
        with suppress(OSError):
            os.rmdir(self.part)

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
    if os.path.exists(path) and not os.path.isdir(path):
        raise UsageError(f"{path} exists, and is not a folder")
    fresh = not os.path.exists(path)
    if not fresh:
        _check(path, names, others, force=force)
    home = os.path.dirname(path) if fresh else path
    if not os.path.isdir(home):
        raise UsageError(f"cannot write {path}: there is no directory {home}")
    folder = Folder(path, os.path.join(home, f".memreplay-{os.urandom(6).hex()}.part"))
    with undone_by_signals(folder.undo):
        try:
            os.mkdir(folder.part)
            os.mkdir(folder.new)
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
    there = [name for name in names if os.path.lexists(os.path.join(path, name))]
    if there and not force:
        raise UsageError(
            f"{os.path.join(path, there[0])} already exists; give --force to replace it"
        )
    foreign = [name for name in others if os.path.lexists(os.path.join(path, name))]
    if foreign:
        raise UsageError(
            f"{os.path.join(path, foreign[0])} may belong to another snapshot: remove it, export"
            " it too, or name another folder"
        )
