"""How wide text is laid out: as wide as the terminal, or 100 columns if there is none."""

from __future__ import annotations

import os
import sys

PIPE_WIDTH = 100


def terminal_width() -> int:
    """Return COLUMNS, or the width that stdout states (a notebook's cell), or the terminal's, or
    PIPE_WIDTH."""
    # As shutil.get_terminal_size, which would import bz2 and lzma for it.
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    said: int = getattr(sys.stdout, "columns", 0)
    if said:
        return said
    try:
        return os.get_terminal_size(1).columns or PIPE_WIDTH
    except OSError:
        return PIPE_WIDTH
