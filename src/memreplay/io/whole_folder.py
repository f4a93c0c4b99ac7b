"""Restore a folder whose writer was killed while replacing its files.

The partial folder has the new files in `new` and the old ones in `old`. While files are being
replaced, the partial folder also has a note with all names.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

NOTE = "replacing"


def note(part: str, names: Sequence[str], made: Sequence[str]) -> None:
    """Record which files are being replaced and which folders will be created. Raises OSError."""
    files = {name: _known(os.path.join(part, "new", name)) for name in names}
    with open(os.path.join(part, NOTE), "x", encoding="ascii") as file:
        json.dump({"files": files, "folders": list(made)}, file)


def forget(part: str) -> None:
    """Delete the note once the replacement is complete or undone. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(part, NOTE))


def remove_folder(part: str) -> None:
    """Move a partial folder's old files back, then remove the folder.

    If this raises OSError, the folder is kept.
    """
    said = _read(os.path.join(part, NOTE))
    for name, known in said["files"].items():
        _put_back(part, name, known)
    for name in reversed(said["folders"]):
        with suppress(OSError):
            os.rmdir(os.path.join(os.path.dirname(part), name))
    forget(part)
    shutil.rmtree(part, ignore_errors=True)


def _put_back(part: str, name: str, known: list[int]) -> None:
    whole = os.path.join(os.path.dirname(part), name)
    new, old = os.path.join(part, "new", name), os.path.join(part, "old", name)
    is_there = os.path.lexists(whole)
    # Keep files that something else has changed in the meantime.
    is_new = is_there and not os.path.lexists(new) and _known(whole) == known
    if os.path.lexists(old):
        if is_new or not is_there:
            os.replace(old, whole)
    elif is_new:
        os.unlink(whole)


def _known(path: str) -> list[int]:
    """Return numbers that identify a file even after a rename."""
    status = os.lstat(path)
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _read(path: str) -> dict[str, Any]:
    """Return the note.

    If the note is missing or incomplete, no file was replaced yet, so return an empty note.
    """
    try:
        with open(path, encoding="ascii") as file:
            said = json.load(file)
    except (FileNotFoundError, ValueError):
        return {"files": {}, "folders": []}
    if not all(map(_is_below, (*said["files"], *said["folders"]))):
        raise PermissionError(path)
    return dict(said)


def _is_below(name: str) -> bool:
    """Return whether a relative name stays within its folder."""
    return not os.path.isabs(name) and os.pardir not in name.replace("\\", "/").split("/")
