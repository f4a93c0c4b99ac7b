"""`memreplay explore`: a snapshot in the terminal, by keys."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from memreplay.analysis.selecting.parsing import WHEN_FORMS, parse_when
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.declaring import Arg, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.folders import holds_files
from memreplay.commands.shared.source import Reading, opened
from memreplay.declared import Opt, Options
from memreplay.errors import MissingExtraError, UsageError
from memreplay.snapshot.model import When

if TYPE_CHECKING:
    from memreplay.explore.curve import Chars
    from memreplay.explore.panes import Pane
    from memreplay.snapshot.snapshot import Snapshot


PEAK = When("peak", 1)


class ExploreOptions(Options, frozen=True):
    """Where to begin, and how to draw."""

    at: Annotated[
        When,
        Opt(
            f"Where to begin: {WHEN_FORMS}.",
            "WHEN",
            parse=parse_when,
            shown="peak",
            brief="Where to begin: peak, end, an event, a time, …",
        ),
    ] = PEAK
    chars: Annotated[
        Literal["auto", "braille", "blocks", "ascii"],
        Opt(
            "What to draw with; auto takes braille where the terminal writes Unicode.",
            rare=True,
        ),
    ] = "auto"


class Begun(NamedTuple):
    """What was asked, and the thread that imports what draws."""

    options: ExploreOptions
    selection: Selection
    reading: Reading
    drawing: threading.Thread


@as_command(
    "explore",
    examples=(
        "memreplay explore snap.pkl",
        "memreplay explore snap.pkl --at end --by category",
        "memreplay explore run/",
        "memreplay explore snap.pkl.gz --device 1 --measure held",
        "memreplay explore snap.pkl --include attention --min-bytes 1MiB",
        "memreplay explore before.pkl after.pkl",
    ),
    without=("top", "strict"),
    rules=True,
)
def command(
    files: Annotated[tuple[str, ...], Arg("FILE [FILE2] | FOLDER")],
    options: ExploreOptions,
    selection: Selection,
    reading: Reading,
) -> int:
    """Shows memory over time, and below it the calls, groups, allocations or segments that held
    memory at the cursor. Keys move it, zoom, search and filter; ? lists them. Two files are
    compared, and of a FOLDER with one file per rank (rank0.pkl, …) one rank is chosen. Needs a
    terminal, and the extra 'explore'.
    """
    if len(files) > 2:
        raise UsageError("name one file, or two to compare")
    if "-" in files:
        raise UsageError("standard input is the keyboard here: name a file")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("explore needs a terminal; memreplay peak and at print what it shows")
    check_textual()
    # What draws is imported while the file is read.
    drawing = threading.Thread(target=_import_drawing, daemon=True)
    drawing.start()
    folders = [file for file in files if holds_files(file)]
    asked = Begun(options, selection, reading, drawing)
    if not folders:
        return explored(files, asked)
    if len(files) > 1:
        raise UsageError(f"{folders[0]} is a folder, and is explored by itself")
    return ranks_explored(folders[0], asked)


def explored(files: tuple[str, ...], asked: Begun) -> int:
    """One snapshot, or two, until somebody quits: the exit code."""
    with contextlib.ExitStack() as stack:
        panes: list[Pane] = []
        for file in files:

            def work(file: str = file) -> Pane:
                snap = stack.enter_context(opened(file, asked.reading))
                asked.drawing.join()
                return pane_of(snap, file, asked)

            pane, code = attempt(file, work)
            if pane is None:
                return code
            panes.append(pane)
        from memreplay.explore.app import Explorer

        explorer = Explorer(panes, chars_of(asked.options.chars))
        explorer.run(mouse=True)
    return explorer.return_code or 0


def ranks_explored(folder: str, asked: Begun) -> int:
    """The ranks in a folder: a list, and from it one after the other."""
    from memreplay.explore.ranks import ranks_of_folder

    ranks, code = ranks_of_folder(folder, asked.reading, asked.selection.measure)
    if not ranks:
        return code
    asked.drawing.join()
    from memreplay.explore.ranks_app import Ranks

    chosen: int | None = None
    while True:
        listed = Ranks(folder, ranks, chars_of(asked.options.chars), chosen)
        found = listed.run(mouse=True)
        if found is None:
            return listed.return_code or code
        chosen = found.rank
        worse = explored((found.file,), asked)
        if worse:
            return worse


def check_textual() -> None:
    """Raises MissingExtraError where Textual is not installed."""
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise MissingExtraError("explore needs Textual", "explore")


def _import_drawing() -> None:
    import memreplay.explore.app
    import memreplay.explore.ranks_app  # noqa: F401


def pane_of(snap: Snapshot, file: str, asked: Begun) -> Pane:
    """The part of the screen of a snapshot that was read. Raises UsageError for what it has not."""
    from msgspec.structs import replace

    from memreplay.analysis.moments.moments import resolve
    from memreplay.commands.view.options import project_words, read_words
    from memreplay.explore import look as looks
    from memreplay.explore.explored import Explored
    from memreplay.explore.panes import Pane

    selection = asked.selection
    explored = Explored(snap, selection.rules)
    if not snap.devices:
        raise UsageError("the snapshot has no device with memory")
    device = asked.reading.device
    if device is None:  # that which had most
        device = max(snap.devices, key=lambda one: snap.replay(one).peak.bytes)
    look = replace(
        explored.first_look(device),
        measure=selection.measure,
        pool=selection.pool,
        stream=selection.stream,
        filters=selection.filters or None,
    )
    if selection.by is not None:
        look = replace(look, by=selection.by, view="groups")
    look = explored.fitting(look)
    event = resolve(snap, explored.usage(look), asked.options.at)
    look = looks.moved(look, event, *explored.bounds(device))
    explored.rows(look)
    read = (*read_words(snap), *project_words(snap.project))
    return Pane(explored, look, file, read, chars_of(asked.options.chars))


def chars_of(asked: str) -> Chars:
    """What to draw with."""
    if asked != "auto":
        return asked  # type: ignore[return-value]
    if os.environ.get("LC_ALL") in ("C", "POSIX"):
        return "ascii"  # Python itself writes UTF-8 then, whatever the terminal shows
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    plain = os.environ.get("TERM") in ("linux", "dumb", "vt100")
    if not encoding.startswith("utf"):
        return "ascii"
    return "blocks" if plain else "braille"
