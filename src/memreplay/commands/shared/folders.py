"""Lists the snapshot files of a folder, or of the folders in it."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from memreplay.errors import SnapshotError, UsageError


def holds_files(path: str) -> bool:
    """Whether it is a folder of snapshots, and not of the tables that are one (see `dataset`)."""
    if not os.path.isdir(path):
        return False
    from memreplay.io.dataset_files import find_dataset

    try:
        return find_dataset(path) is None
    except SnapshotError:  # tables; reading them says what is wrong with them
        return _has_snapshots(path)


def _has_snapshots(path: str) -> bool:
    try:
        return bool(snapshot_files(path))
    except (UsageError, OSError):
        return False


def snapshot_files(folder: str) -> list[str]:
    """The files that are snapshots by their name, as paths from `folder` on, in natural order.

    Those in `folder` itself; where it has none, those in its subfolders (`iteration_10/…`). Hidden
    ones are left out, and what is no regular file: a pipe would be waited for. Raises OSError where
    a folder cannot be listed, and UsageError where there is no such file.
    """
    from memreplay.analysis.comparing.rank_names import natural, snapshot_names

    files, folders = _entries(folder)
    found = snapshot_names(files)
    if not found:
        inside = [f"{name}/{file}" for name in folders for file in _files(folder, name)]
        found = snapshot_names(inside)
    if not found:
        raise UsageError("no snapshot in this folder: no name ends in .pkl, .pickle or .json")
    return sorted(found, key=natural)


class Listing(NamedTuple):
    """The snapshots of a folder by their names from there on, and how each lies there; whether
    there are folders in it, and why some of what is in it could not be looked at."""

    files: dict[str, os.stat_result]
    folders: bool
    trouble: str


MOST_LEVELS = 32  # of folders in folders


def snapshot_stats(folder: str, *, deep: bool) -> Listing:
    """As `snapshot_files`, by no more than a listing and a stat of each snapshot; there may be
    none. `deep` looks into the folders in it as well, not through links. Raises OSError where
    `folder` itself cannot be listed."""
    from memreplay.analysis.comparing.rank_names import snapshot_names

    found: dict[str, os.stat_result] = {}
    inside, trouble = False, ""
    left = [("", 0)]
    while left:
        below, level = left.pop()
        try:
            with os.scandir(os.path.join(folder, below)) as entries:
                shown = [entry for entry in entries if not entry.name.startswith(".")]
            folders = {entry.name for entry in shown if entry.is_dir(follow_symlinks=False)}
        except OSError as error:
            if not below:
                raise
            if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                trouble = trouble or f"{below}: {_words(error)}"
            continue
        inside = inside or bool(folders)
        if deep and level < MOST_LEVELS:
            left += [(os.path.join(below, name), level + 1) for name in folders]
        for name in snapshot_names(entry.name for entry in shown if entry.name not in folders):
            path = os.path.join(below, name)
            try:
                status = os.stat(os.path.join(folder, path))
            except OSError as error:
                if isinstance(error, PermissionError):
                    trouble = trouble or f"{path}: {_words(error)}"
                continue
            if stat.S_ISREG(status.st_mode):
                found[path] = status
    return Listing(found, inside, trouble)


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _files(folder: str, name: str) -> list[str]:
    try:
        return _entries(os.path.join(folder, name))[0]
    except OSError as error:
        raise UsageError(f"the folder {name} in it cannot be listed: {error.strerror}") from None


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """The names of the regular files and of the folders in it, links followed."""
    with os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    # Not entry.is_file(): that fails on a link to itself.
    files = [entry.name for entry in shown if os.path.isfile(entry.path)]
    return files, [entry.name for entry in shown if os.path.isdir(entry.path)]
