"""A folder whose files were being replaced when its writer was killed: put back as it was.

The part has the new files in `new`, those that they replaced in `old`, and, while names change, a
note of all names.
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
    """Says which files get their names now, and which folders will be made for them. Raises
    OSError."""
    files = {name: _known(os.path.join(part, "new", name)) for name in names}
    with open(os.path.join(part, NOTE), "x", encoding="ascii") as file:
        json.dump({"files": files, "folders": list(made)}, file)


def forget(part: str) -> None:
    """All have theirs, or their old ones back. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(part, NOTE))


def remove_folder(part: str) -> None:
    """Removes a part, whose old files get their names back. Raises OSError, and keeps it then."""
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
    # What somebody has written there since stays.
    is_new = is_there and not os.path.lexists(new) and _known(whole) == known
    if os.path.lexists(old):
        if is_new or not is_there:
            os.replace(old, whole)
    elif is_new:
        os.unlink(whole)


def _known(path: str) -> list[int]:
    """By what a file is known again under another name."""
    status = os.lstat(path)
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _read(path: str) -> dict[str, Any]:
    """The note; an empty one where there is none, or no whole one: then no name was changed."""
    try:
        with open(path, encoding="ascii") as file:
            said = json.load(file)
    except (FileNotFoundError, ValueError):
        return {"files": {}, "folders": []}
    if not all(map(_is_below, (*said["files"], *said["folders"]))):
        raise PermissionError(path)
    return dict(said)


def _is_below(name: str) -> bool:
    """Whether a name stays in its folder."""
    return not os.path.isabs(name) and os.pardir not in name.replace("\\", "/").split("/")
