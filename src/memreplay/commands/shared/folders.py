"""List the snapshot files of a folder and its subfolders."""

from __future__ import annotations

import os
from collections.abc import Callable

from memreplay.errors import SnapshotError, UsageError
from memreplay.io.walking import is_file_at
from memreplay.render.units import counted

LEVELS = 4  # number of levels to search below folders without snapshots
MOST_FOLDERS = 4096  # maximum per level


def holds_files(path: str) -> bool:
    """Return whether a path is a folder of snapshots rather than of a dataset's tables (see
    `dataset`).
    """
    if not os.path.isdir(path):
        return False
    from memreplay.io.dataset_files import find_dataset

    try:
        return find_dataset(path) is None
    except SnapshotError:  # a dataset; the error is reported when it's read
        return _has_snapshots(path)


def _has_snapshots(path: str) -> bool:
    try:
        return bool(snapshot_files(path))
    except (UsageError, OSError):
        return False


def snapshot_files(folder: str) -> list[str]:
    """Return a folder's snapshot files as paths relative to `folder`, in natural order.

    These are the files in `folder` itself, or else in the nearest subfolders that have any
    (`memory_snapshot/iteration_10/…`), up to LEVELS deep. Hidden files are skipped, and so is
    anything but regular files, because reading a pipe would block. Raises OSError if the folder
    can't be listed, and UsageError if there are no snapshots or a subfolder can't be listed.
    """
    from memreplay.io.choosing import no_snapshot_text, snapshots_among
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
    raise UsageError(no_snapshot_text(folder))


def rank_files(
    folder: str, check: Callable[[list[str]], None] | None = None
) -> tuple[dict[int, str], tuple[str, ...]]:
    """Return each rank's file, and the files without a rank (see `snapshot_files`).

    `check` may reject the files. Snapshots in subfolders are skipped with a note. Raises the same
    errors as `snapshot_files`, and UsageError for ambiguous or duplicate ranks.
    """
    from memreplay.analysis.comparing.rank_names import ranks_of
    from memreplay.commands.shared.errors import say

    files = snapshot_files(folder)
    if check is not None:
        check(files)
    found, alone = ranks_of(files)
    if below := _further_below(folder, files):
        snapshots = counted(len(below), "snapshot")
        say(
            f"{folder}: {snapshots} in subfolders left out ({below[0]}); give that folder"
            " to read them"
        )
    paths = {rank: os.path.join(folder, name) for rank, name in found.items()}
    return paths, tuple(os.path.join(folder, name) for name in alone)


def _further_below(folder: str, files: list[str]) -> list[str]:
    from memreplay.io.choosing import snapshots_among
    from memreplay.io.names import natural
    from memreplay.io.walking import files_below

    level = max(name.count("/") for name in files)
    there = snapshots_among(files_below(folder, lambda _: None), folder)
    return sorted((name for name in there if name.count("/") > level), key=natural)


def _inside(folder: str, below: str) -> tuple[list[str], list[str]]:
    name = below.rstrip("/")
    try:
        return _entries(os.path.join(folder, name))
    except OSError as error:
        raise UsageError(f"can't list its folder {name}: {error.strerror}") from None


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """Return the names of regular files and folders, following links."""
    with os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    files = [entry.name for entry in shown if is_file_at(entry.path)]
    return files, [entry.name for entry in shown if os.path.isdir(entry.path)]
