"""Show a progress bar on stderr while large files are read."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from memreplay.commands.shared.ending import undone_by_signals
from memreplay.commands.shared.errors import name_of

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Seconds before a bar is shown. Most files are read faster than this, and a bar that only flashes
# up is distracting.
DELAY_S = 1.0
_WIPE = "\r\x1b[2K"  # clears the line
T = TypeVar("T")
Update = Callable[[int, "int | None"], None]
Showing = Callable[[str], AbstractContextManager["Update | None"]]


@contextmanager
def reading_progress(file: str) -> Iterator[Update | None]:
    """Yield a callback that takes (bytes done, total bytes or None). Yield None if a bar wouldn't
    be visible.
    """
    with several_progress(1) as showing, showing(file) as update:
        yield update


def quiet(_file: str) -> AbstractContextManager[Update | None]:
    """Don't show a file's progress bar, for example because there's one for all files."""
    return nullcontext(None)


@contextmanager
def several_progress(files: int) -> Iterator[Showing]:
    """Return a replacement for `reading_progress` that shares one bar among several files."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield quiet
        return
    bar = _LateBar(files)
    try:
        with undone_by_signals(bar.wipe):
            yield bar.of_file
    finally:
        bar.close()


@contextmanager
def working(words: str) -> Iterator[None]:
    """If the work takes a while, print on a terminal what is being done, and erase it
    afterwards.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    from threading import Lock, Timer

    lock, over, said = Lock(), False, False

    def show() -> None:
        nonlocal said
        with lock:
            if not over:
                said = True
                sys.stderr.write(f"{words} …")
                sys.stderr.flush()

    def wipe() -> None:
        if said:
            os.write(2, _WIPE.encode())

    timer = Timer(DELAY_S, show)
    timer.daemon = True
    timer.start()
    try:
        with undone_by_signals(wipe):
            yield
    finally:
        timer.cancel()
        with lock:
            over = True
        if said:
            sys.stderr.write(_WIPE)
            sys.stderr.flush()


def counted(done: Iterator[T], total: int, what: str) -> Iterator[T]:
    """Pass items on while showing on a terminal how many are done, such as `37 of 300 ranks`."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield from done
        return
    bar = _LateBar(1, partial(_make_counter, what))
    try:
        with undone_by_signals(bar.wipe), bar.of_file("") as update:
            for number, one in enumerate(done, 1):
                update(number, total)
                yield one
    finally:
        bar.close()


class _LateBar:
    """A bar that appears after a delay. rich is only imported then."""

    def __init__(self, files: int, make: Callable[[], Progress] | None = None) -> None:
        self._make = make
        self._files = files
        self._number = 0
        self._file = ""
        self._start = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    @contextmanager
    def of_file(self, file: str) -> Iterator[Update]:
        """Go on with the next file. If reading fails, remove the bar before printing the error."""
        self._file = file
        self._number += 1
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, description=self._words(), total=None)
        try:
            yield self.update
        except BaseException:
            self.close()
            raise

    def _words(self) -> str:
        name = _short_name(self._file)
        return name if self._files == 1 else f"{self._number} of {self._files}  {name}"

    def update(self, done: int, total: int | None) -> None:
        if self._bar is None:
            if time.monotonic() - self._start < DELAY_S:
                return
            self._bar = _make_bar() if self._make is None else self._make()
            self._task = self._bar.add_task(self._words(), total=total)
            self._bar.start()
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)

    def wipe(self) -> None:
        """Restore the terminal when no other function can be called."""
        if self._bar is not None:
            os.write(2, b"\r\x1b[2K\x1b[?25h")  # clear the line, show the cursor

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _make_bar() -> Progress:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(binary_units=True),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,  # removed before the report is printed
    )


def _make_counter(what: str) -> Progress:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.MofNCompleteColumn(separator=" of "),
        progress.TextColumn(what, markup=False),
        progress.BarColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _short_name(file: str) -> str:
    from memreplay.render.fit import fit_path
    from memreplay.texts import clean

    return fit_path(clean(os.path.basename(name_of(file))), 30)
