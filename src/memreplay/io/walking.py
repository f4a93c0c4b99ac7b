"""Walks the folders of this machine: one that cannot be listed is told, and the others go on."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable
from typing import NamedTuple

DENIED = "permission denied"


class Unlisted(NamedTuple):
    """A folder that could not be listed, and why."""

    folder: str
    reason: str

    @property
    def words(self) -> str:
        """Why what is in the folder is not among the rest."""
        return f"the folder cannot be listed: {self.reason}; what is in it is left out"


# What becomes of a folder that cannot be listed.
Skipped = Callable[[Unlisted], object]


def files_below(folder: str, skipped: Skipped) -> list[str]:
    """The regular files in a folder and below it, as paths from it on; links are followed, once.

    Hidden ones are left out, and what is no regular file: a pipe would be waited for. `skipped` is
    told of folders below that cannot be listed. Raises OSError if `folder` itself cannot be.
    """
    found: list[str] = []
    seen: set[tuple[int, int]] = set()
    left = [""]
    while left:
        below = left.pop()
        at = os.path.join(folder, below) if below else folder
        try:
            status = os.stat(at)
            if (status.st_dev, status.st_ino) in seen:  # a link to a folder above
                continue
            seen.add((status.st_dev, status.st_ino))
            files, folders, denied = _entries(at)
        except OSError as error:
            if not below:
                raise
            if not isinstance(error, FileNotFoundError):  # else it went meanwhile
                skipped(Unlisted(at, reason_of(error)))
            continue
        for path, reason in denied:
            skipped(Unlisted(path, reason))
        found += [os.path.join(below, name) for name in files]
        left += [os.path.join(below, name) for name in sorted(folders, reverse=True)]
    return found


def shut_folders(pattern: str, folders: Iterable[str]) -> list[str]:
    """The folders that a pattern goes through and that may not be listed: `glob` passes over them.
    `folders` are those that it goes into at last."""
    through = set(folders)
    above = os.path.dirname(pattern)
    while glob.has_magic(above):
        through.update(filter(os.path.isdir, glob.glob(above, recursive=True)))
        above = os.path.dirname(above)
    if os.path.isdir(above or os.curdir):
        through.add(above or os.curdir)
    return sorted(path for path in through if not os.access(path, os.R_OK | os.X_OK))


def reason_of(error: OSError) -> str:
    """Why the system refused."""
    return str(error.strerror or error).lower()


def _entries(folder: str) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """The names of the regular files and of the folders in it, and what cannot even be looked at:
    a link to where nobody may look, or all of a folder that may be listed but not entered."""
    files, folders, denied = [], [], []
    with os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in shown:
        try:
            mode = os.stat(entry.path).st_mode
        except PermissionError as error:
            denied.append((entry, reason_of(error)))
            continue
        except OSError:  # a link to nothing or to itself, or a file that went
            continue
        if stat.S_ISDIR(mode):
            folders.append(entry.name)
        elif stat.S_ISREG(mode):
            files.append(entry.name)
    links = [(entry.path, reason) for entry, reason in denied if entry.is_symlink()]
    if len(links) < len(denied):
        return files, folders, [(folder, denied[0][1])]
    return files, folders, links
