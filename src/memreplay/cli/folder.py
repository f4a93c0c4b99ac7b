"""Writes several files into a folder: all of them, or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    those that do not fit beside them, and may not be there at all: they are of something else.
    After an error the folder is as it was. Raises UsageError before anything is done.
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
    os.mkdir(part)
    folder = Folder(part)
    try:
        yield folder
        if not folder.kept:
            return
        if fresh:
            os.rename(part, path)
            return
        for name in folder.names:
            whole = os.path.join(path, name)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            os.replace(os.path.join(part, name), whole)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check(path: str, names: Sequence[str], others: Sequence[str], *, force: bool) -> None:
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
