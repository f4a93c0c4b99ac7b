"""Text width: the terminal's, or 100 columns without one."""

from __future__ import annotations

import os
import sys

PIPE_WIDTH = 100


def terminal_width() -> int:
    """Return COLUMNS or else the width declared by stdout (in a notebook's cell), the terminal's
    width, or PIPE_WIDTH.
    """
    # Reimplements shutil.get_terminal_size, because importing shutil also imports bz2 and lzma.
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    said: int = getattr(sys.stdout, "columns", 0)
    if said:
        return said
    try:
        return os.get_terminal_size(1).columns or PIPE_WIDTH
    except (OSError, AttributeError):  # a browser has no terminal
        return PIPE_WIDTH
