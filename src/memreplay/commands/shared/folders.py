"""Lists the snapshot files of a folder, or of the folders in it."""

from __future__ import annotations

import os
from collections.abc import Callable

from memreplay.errors import SnapshotError, UsageError
from memreplay.render.units import counted

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
    from memreplay.io.choosing import no_snapshot_words, snapshots_among
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
    raise UsageError(no_snapshot_words(folder))


def rank_files(
    folder: str, check: Callable[[list[str]], None] | None = None
) -> tuple[dict[int, str], tuple[str, ...]]:
    """The path of each rank's file, and of those that are of none (see `snapshot_files`); `check`
    may refuse the files. Snapshots further below are left out, and a note says so. Raises as
    `snapshot_files` does, and UsageError for ranks that are ambiguous or there twice."""
    from memreplay.analysis.comparing.rank_names import ranks_of
    from memreplay.commands.shared.errors import say

    files = snapshot_files(folder)
    if check is not None:
        check(files)
    found, alone = ranks_of(files)
    if below := _further_below(folder, files):
        snapshots = counted(len(below), "snapshot")
        say(f"{folder}: {snapshots} further below left out ({below[0]}): name that folder for them")
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
        raise UsageError(f"the folder {name} in it cannot be listed: {error.strerror}") from None


def _entries(folder: str) -> tuple[list[str], list[str]]:
    """The names of the regular files and of the folders in it, links followed."""
    with os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    # Not entry.is_file(): that fails on a link to itself.
    files = [entry.name for entry in shown if os.path.isfile(entry.path)]
    return files, [entry.name for entry in shown if os.path.isdir(entry.path)]
