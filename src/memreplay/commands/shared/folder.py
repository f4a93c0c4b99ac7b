"""Write several files into a folder atomically. If a signal arrives, unfinished work is undone."""

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
    """Yield a function that creates files in the folder `path`. The files get their names once all
    are complete.

    `names`: the files to create, none of which may exist unless `force` is set. `others`: files
    that don't belong with them and must not exist. Any other files are left alone. After an error,
    the folder is as it was before. Raises UsageError before anything is done, or if old files can't
    be restored.
    """
    path = os.path.realpath(path)
    fresh = not _is_there(path)
    if not fresh and not os.path.isdir(path):
        raise UsageError(f"{path} exists but isn't a folder")
    for place in {path, os.path.dirname(path)}:
        # Including old files that were moved away and have to be restored.
        remove_stale(place, None)
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
            raise UsageError(f"{whole} is a folder, but a file with this name has to be written")
        while (whole := os.path.dirname(whole)) != path:
            if os.path.lexists(whole) and not os.path.isdir(whole):
                raise UsageError(f"{whole} exists but isn't a folder")
    there = [name for name in names if _is_there(os.path.join(path, name))]
    if there and not force:
        raise UsageError(
            f"{os.path.join(path, there[0])} already exists; give --force to replace it"
        )
    foreign = [name for name in others if _is_there(os.path.join(path, name))]
    if foreign:
        raise UsageError(
            f"{os.path.join(path, foreign[0])} may belong to another snapshot; remove it,"
            " export it too, or choose another folder"
        )


def _is_there(path: str) -> bool:
    """Return whether a name exists. Raises UsageError if this can't be determined."""
    try:
        return lies_at(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or '').lower()}") from None
