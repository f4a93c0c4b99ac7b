"""The page of one file, or of two that are compared: read, and all that they say."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING

from memreplay.commands.shared.errors import CUT_OFF, attempt, name_of, say
from memreplay.commands.shared.progress import several_progress, working
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.view.options import asked_words

if TYPE_CHECKING:
    from memreplay.commands.shared.progress import Showing
    from memreplay.export.page.records import Page
    from memreplay.snapshot.snapshot import Snapshot

    Made = tuple[Page, list[bytes]]


def page_of_files(files: tuple[str, ...], reading: Reading) -> tuple[Made | None, int]:
    """The page, or None, and the exit code of what is wrong."""
    rules, asked = reading.config.rules(), asked_words(reading)
    # What makes pages is imported while files are read.
    loading = Thread(target=_load)
    loading.start()
    snapshots = []
    with several_progress(len(files)) as showing:
        # Each by itself: an error should name the file that it is of.
        for file in files:
            snap, exit_code = attempt(file, partial(_read, file, reading, showing))
            if snap is None:
                return None, exit_code
            snapshots.append(snap)

    # Not waited for where a signal raises: it may wait for a lock of imports that this left taken.
    loading.join()

    def work() -> Made:
        from memreplay.commands.view.find import compared_page, one_page

        with ExitStack() as until, working("making the page"):
            base, *new = map(until.enter_context, snapshots)
            if new:
                return compared_page(base, new[0], rules, asked)
            return one_page(base, rules, asked)

    made = attempt(", ".join(map(name_of, files)), work)
    if any(snap.truncation is not None for snap in snapshots):
        say(CUT_OFF)
    return made


def _load() -> None:
    with suppress(ImportError):  # said where it is imported next
        import_module("memreplay.commands.view.find")


def _read(file: str, reading: Reading, showing: Showing) -> Snapshot:
    with opened(file, reading, showing) as snap:
        return snap
