"""Writes several files into a folder: all of them, or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from memreplay.errors import UsageError


class Folder:
    """Where the files of a `folder_output` are made."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.names: list[str] = []
        self.kept = True

    def __call__(self, name: str) -> IO[bytes]:
        """A new file of this name (with folders of its own, where it says so), to be closed."""
        path = os.path.join(self.part, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.names.append(name)
        return open(path, "xb")

    def give_up(self) -> None:
        """Nothing is to be kept."""
        self.kept = False


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
        raise UsageError(f"{path} is there already, and no folder")
    fresh = not os.path.exists(path)
    if not fresh:
        _check(path, names, others, force=force)
    home = os.path.dirname(path) if fresh else path
    if not os.path.isdir(home):
        raise UsageError(f"cannot write {path}: there is no directory {home}")
    part = os.path.join(home, f".memreplay-{os.urandom(6).hex()}.part")
    folder = Folder(os.path.join(part, "new"))
    old = os.path.join(part, "old")
    os.mkdir(part)
    try:
        os.mkdir(folder.part)
        yield folder
        if folder.kept:
            if fresh:
                os.rename(folder.part, path)
            else:
                _replace(path, folder, old)
    finally:
        shutil.rmtree(folder.part, ignore_errors=True)
        with suppress(OSError):  # what could not be put back is still in it
            os.rmdir(part)


def _replace(path: str, folder: Folder, old: str) -> None:
    """Gives the new files their names in `path`; what had them is in `old` until all have. After an
    error they are put back. The folder itself stays: somebody may stand in it, and files of others
    are there."""
    made: list[str] = []
    try:
        for name in folder.names:
            whole = os.path.join(path, name)
            _make_folders(os.path.dirname(whole), made)
            if os.path.lexists(whole):
                os.makedirs(os.path.dirname(os.path.join(old, name)), exist_ok=True)
                os.replace(whole, os.path.join(old, name))
            os.replace(os.path.join(folder.part, name), whole)
    except BaseException:
        try:
            _put_back(path, folder, old, made)
        except OSError:
            raise UsageError(f"cannot write all of {path}; what was there is in {old}") from None
        shutil.rmtree(old, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _put_back(path: str, folder: Folder, old: str, made: list[str]) -> None:
    """Undoes what `_replace` did, however far it came: where each file is says that."""
    for name in folder.names:
        whole = os.path.join(path, name)
        if os.path.lexists(os.path.join(old, name)):
            os.replace(os.path.join(old, name), whole)
        elif not os.path.lexists(os.path.join(folder.part, name)):
            os.unlink(whole)
    for one in reversed(made):
        with suppress(FileNotFoundError):
            os.rmdir(one)


def _make_folders(path: str, made: list[str]) -> None:
    """As os.makedirs; those that were not there are added to `made`, the outermost first."""
    if not os.path.isdir(path):
        _make_folders(os.path.dirname(path), made)
        made.append(path)
        os.mkdir(path)


def _check(path: str, names: Sequence[str], others: Sequence[str], *, force: bool) -> None:
    for whole in (os.path.join(path, name) for name in names):
        if os.path.isdir(whole) and not os.path.islink(whole):
            raise UsageError(f"{whole} is a folder, where a file is to go")
        while (whole := os.path.dirname(whole)) != path:
            if os.path.lexists(whole) and not os.path.isdir(whole):
                raise UsageError(f"{whole} is there already, and no folder")
    there = [name for name in names if os.path.lexists(os.path.join(path, name))]
    if there and not force:
        raise UsageError(
            f"{os.path.join(path, there[0])} is there already; give --force to replace it"
        )
    foreign = [name for name in others if os.path.lexists(os.path.join(path, name))]
    if foreign:
        raise UsageError(
            f"{os.path.join(path, foreign[0])} may be of another snapshot: remove it, export it"
            " too, or name another folder"
        )
