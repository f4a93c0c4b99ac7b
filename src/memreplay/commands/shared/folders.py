"""Lists the snapshot files of a folder, or of the folders in it."""

from __future__ import annotations

import os

from memreplay.errors import SnapshotError, UsageError

LEVELS = 4  # of folders that are looked into where those above have no snapshot
MOST_FOLDERS = 4096  # of one level


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
    """The files that are snapshots, as paths from `folder` on, in natural order.

    Those in `folder` itself; where it has none, those in the nearest folders below it that have
    some (`memory_snapshot/iteration_10/…`), down to LEVELS. Hidden ones are left out, and what is
    no regular file: a pipe would be waited for. Raises OSError where the folder cannot be listed,
    and UsageError where there is no such file, or a folder in it cannot be listed.
    """
    from memreplay.io.choosing import NO_SNAPSHOT, snapshots_among
    from memreplay.io.names import natural

    level = [""]
    for _ in range(LEVELS + 1):
        files, folders = [], []
        for below in level[:MOST_FOLDERS]:
            here, inside = _entries(folder) if not below else _inside(folder, below)
            files += [f"{below}{name}" for name in here]
            folders += [f"{below}{name}/" for name in inside]
        found = snapshots_among(files, folder)
        if found:
            return sorted(found, key=natural)
        level = folders
    raise UsageError(NO_SNAPSHOT)


def _inside(folder: str, below: str) -> tuple[list[str], list[str]]:
    name = below.rstrip("/")
    try:
        return _entries(os.path.join(folder, name))
    except OSError as error:
        raise UsageError(f"the folder {name} in it cannot be listed: {error.strerror}") from None


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """The names of the regular files and of the folders in it, links followed."""
    with os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    # Not entry.is_file(): that fails on a link to itself.
    files = [entry.name for entry in shown if os.path.isfile(entry.path)]
    return files, [entry.name for entry in shown if os.path.isdir(entry.path)]
