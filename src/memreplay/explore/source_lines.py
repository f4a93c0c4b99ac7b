"""Read the source lines around a frame, if its file exists here."""

from __future__ import annotations

import os
import stat

LARGEST = 4 << 20  # bytes; larger files aren't read
_kept: dict[str, list[str]] = {}
MOST_KEPT = 64


def lines_around(file: str, line: int, most: int) -> list[tuple[int, str]]:
    """Return up to `most` numbered lines with `line` in the middle.

    The result is empty if the file is missing, isn't text or is too short. A snapshot may name any
    path, so only regular files of moderate size are opened.
    """
    if line < 1 or most < 1 or not os.path.isabs(file):
        return []
    if file not in _kept:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[file] = _read(file)
    lines = _kept[file]
    if line > len(lines):
        return []
    first = max(min(line - 1 - most // 2, len(lines) - most), 0)
    return [(first + i + 1, text) for i, text in enumerate(lines[first : first + most])]


def _read(file: str) -> list[str]:
    try:
        # Don't block on a pipe that has no writer. On Windows, open the file in binary mode.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(file, flags)
    except (OSError, ValueError):
        return []
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            return []
        with open(handle, "rb", closefd=False) as opened:
            data = opened.read(LARGEST)
    except OSError:
        return []
    finally:
        os.close(handle)
    if b"\0" in data:
        return []
    return data.decode("utf-8", "replace").splitlines()
