"""Lists the snapshot files of a folder, or of the folders in it."""

from __future__ import annotations

import os

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
    from memreplay.io.names import natural, snapshot_names

    files, folders = _entries(folder)
    found = snapshot_names(files)
    if not found:
        inside = [f"{name}/{file}" for name in folders for file in _files(folder, name)]
        found = snapshot_names(inside)
    if not found:
        raise UsageError("no snapshot in this folder: no name ends in .pkl, .pickle or .json")
    return sorted(found, key=natural)


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
