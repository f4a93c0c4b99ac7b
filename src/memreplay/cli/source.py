"""Opens the snapshot that an argument names, with a progress bar while it is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memreplay.cli.progress import reading_progress

if TYPE_CHECKING:
    from memreplay.snapshot import Snapshot


@contextmanager
def opened(file: str, *, salvage: bool = False) -> Iterator[Snapshot]:
    """The snapshot in `file`, or on standard input for `-`, closed afterwards.

    Ask it all questions inside: the bar is gone when this ends, and output may be written.
    """
    import memreplay as mr  # late: it loads the native core

    source = sys.stdin.buffer if file == "-" else file
    with (
        reading_progress(file) as progress,
        mr.open(source, progress=progress, salvage=salvage) as snapshot,
    ):
        yield snapshot
