"""Build the page of one file, or of two files to compare."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from memreplay.commands.shared.errors import CUT_OFF, attempt, name_of, say
from memreplay.commands.shared.progress import several_progress, working
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.view.options import Given, given_options
from memreplay.io.parallel import started

if TYPE_CHECKING:
    from memreplay.commands.shared.progress import Showing
    from memreplay.export.page.records import Page
    from memreplay.snapshot.snapshot import Snapshot

    Made = tuple[Page, list[bytes]]


def page_of_files(
    files: tuple[str, ...], reading: Reading, total_memory: int | None = None
) -> tuple[Made | None, int]:
    """Return the page and 0, or None and the error's exit code."""
    rules, given = reading.config.rules(), Given(given_options(reading), total_memory)
    # Import the page builder while files are being read.
    loading = Thread(target=_load)
    is_loading = started(loading)
    snapshots = []
    with several_progress(len(files)) as showing:
        # Read separately so that an error names the right file.
        for file in files:
            snap, exit_code = attempt(file, partial(_read, file, reading, showing))
            if snap is None:
                return None, exit_code
            snapshots.append(snap)

    # If a signal handler raises, don't join the thread, which could deadlock on an import lock.
    if is_loading:
        loading.join()

    def work() -> Made:
        from memreplay.commands.view.find import compared_page, one_page

        with ExitStack() as until, working("writing the page"):
            base, *new = map(until.enter_context, snapshots)
            if new:
                return compared_page(base, new[0], rules, given)
            return one_page(base, rules, given)

    made = attempt(", ".join(map(name_of, files)), work)
    if any(snap.truncation is not None for snap in snapshots):
        say(CUT_OFF)
    return made


def _load() -> None:
    with suppress(ImportError):  # the next import reports the error
        import_module("memreplay.commands.view.find")


def _read(file: str, reading: Reading, showing: Showing) -> Snapshot:
    with opened(file, reading, showing) as snap:
        return snap
