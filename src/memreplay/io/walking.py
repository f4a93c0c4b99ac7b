"""Walk local folders. Folders that can't be listed are reported and skipped."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import NamedTuple

DENIED = "permission denied"


class Unlisted(NamedTuple):
    """A folder that can't be listed, and why."""

    folder: str
    reason: str

    @property
    def words(self) -> str:
        """Return a message that says that the folder was skipped."""
        return f"the folder cannot be listed: {self.reason}; skipped"


# Called for each folder that can't be listed.
Skipped = Callable[[Unlisted], object]


def files_below(folder: str, skipped: Skipped) -> list[str]:
    """Return the regular files in a folder and its subfolders, as relative paths.

    Each folder is visited once, even if links lead to it. Hidden files are skipped, and so are
    pipes and devices, because opening them could block. `skipped` is called for subfolders that
    can't be listed. Raises OSError if `folder` itself can't be listed.
    """
    found: list[str] = []
    seen: set[tuple[int, int]] = set()
    left = [""]
    while left:
        below = left.pop()
        at = os.path.join(folder, below) if below else folder
        try:
            status = os.stat(at)
            if (status.st_dev, status.st_ino) in seen:  # a link to a folder above this one
                continue
            seen.add((status.st_dev, status.st_ino))
            files, folders, denied = _entries(at)
        except OSError as error:
            if not below:
                raise
            # otherwise, the folder was deleted in the meantime
            if not isinstance(error, FileNotFoundError):
                skipped(Unlisted(at, reason_of(error)))
            continue
        for path, reason in denied:
            skipped(Unlisted(path, reason))
        found += [os.path.join(below, name) for name in files]
        left += [os.path.join(below, name) for name in sorted(folders, reverse=True)]
    return found


def is_file(status: os.stat_result) -> bool:
    """Return whether this is a regular file whose reading can't block or have side effects, unlike
    pipes, devices and the kernel's files in /proc and /sys.
    """
    return stat.S_ISREG(status.st_mode) and status.st_dev not in _kernel_devices()


def is_file_at(path: str) -> bool:
    """Return whether there is such a file, following links."""
    try:
        return is_file(os.stat(path))
    except (OSError, ValueError):
        return False


@cache
def _kernel_devices() -> frozenset[int]:
    found = set()
    for path in ("/proc", "/sys"):
        with suppress(OSError):
            found.add(os.stat(path).st_dev)
    with suppress(OSError):  # where they're plain folders
        found.discard(os.stat("/").st_dev)
    return frozenset(found)


def unlistable_folders(pattern: str, folders: Iterable[str]) -> list[str]:
    """Return the folders that a pattern traverses but that can't be listed, which `glob` silently
    ignores.

    `folders` are the folders that the pattern matches.
    """
    through = set(folders)
    above = os.path.dirname(pattern)
    while glob.has_magic(above):
        through.update(filter(os.path.isdir, glob.glob(above, recursive=True)))
        above = os.path.dirname(above)
    if os.path.isdir(above or os.curdir):
        through.add(above or os.curdir)
    return sorted(path for path in through if not os.access(path, os.R_OK | os.X_OK))


def reason_of(error: OSError) -> str:
    """Return the system's reason in lower case."""
    return str(error.strerror or error).lower()


def _entries(folder: str) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Return the names of the regular files and folders in `folder`, and the entries that can't be
    accessed. Such entries are links to a protected place, or all entries if the folder can be
    listed but not entered.
    """
    files, folders, denied = [], [], []
    with os.scandir(folder) as entries:
        shown = [entry for entry in entries if not entry.name.startswith(".")]
    for entry in shown:
        try:
            status = os.stat(entry.path)
        except PermissionError as error:
            denied.append((entry, reason_of(error)))
            continue
        except OSError:  # a broken or circular link, or a file deleted in the meantime
            continue
        if stat.S_ISDIR(status.st_mode):
            folders.append(entry.name)
        elif is_file(status):
            files.append(entry.name)
    links = [(entry.path, reason) for entry, reason in denied if entry.is_symlink()]
    if len(links) < len(denied):
        return files, folders, [(folder, denied[0][1])]
    return files, folders, links
