"""Shows a progress bar on stderr while a large file is read."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memreplay.cli.errors import name_of

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Most files are read before this, and a bar that only flashes is a nuisance.
DELAY_S = 1.0
Update = Callable[[int, "int | None"], None]


@contextmanager
def reading_progress(file: str) -> Iterator[Update | None]:
    """A callback for (bytes done, bytes in all or None); None where nobody would see a bar."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    bar = _LateBar(file)
    try:
        yield bar.update
    finally:
        bar.close()


class _LateBar:
    """A bar that appears once the work has taken a while, and rich is imported only then."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._start = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def update(self, done: int, total: int | None) -> None:
        if self._bar is None:
            if time.monotonic() - self._start < DELAY_S:
                return
            self._bar = _make_bar()
            self._task = self._bar.add_task(_short_name(self._file), total=total)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _make_bar() -> Progress:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(binary_units=True),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,  # it leaves nothing behind above the report
    )


def _short_name(file: str) -> str:
    from memreplay.reports.fit import clean, fit_path

    return fit_path(clean(os.path.basename(name_of(file))), 30)
