"""Where several files may go in a folder, and that a signal undoes what is half done there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from memreplay.commands.shared.ending import undone_by_signals
from memreplay.errors import UsageError
from memreplay.io.whole import remove_stale
from memreplay.io.whole_files import Folder, lies_at


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
        return lies_at(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or '').lower()}") from None
