"""`memreplay explore`: explore a snapshot in the terminal."""

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
from memreplay.errors import UsageError
from memreplay.explore.terminal import chars_of, check_textual
from memreplay.snapshot.model import When

if TYPE_CHECKING:
    from memreplay.explore.panes import Pane
    from memreplay.snapshot.snapshot import Snapshot


class ExploreOptions(Options, frozen=True):
    """Options for where to start and how to draw."""

    at: Annotated[
        When | None,
        Opt(
            f"Where to start: {WHEN_FORMS}.",
            "WHEN",
            parse=parse_when,
            shown="the first failed request, else the peak",
            brief="Where to start: peak, end, an event, a time, …",
        ),
    ] = None
    chars: Annotated[
        Literal["auto", "braille", "blocks", "ascii"],
        Opt(
            "Which characters to draw with; auto uses blocks if the terminal supports Unicode, and"
            " braille is finer, if the font has it.",
            rare=True,
        ),
    ] = "auto"


class Begun(NamedTuple):
    """The options, and the thread that is importing the drawing code."""

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
        "memreplay explore snap.pkl --include attention --only min-bytes=1MiB",
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
    """Plot memory over time above the calls, groups, allocations or segments that hold memory at
    the cursor. Keys move the cursor, zoom, search and filter; ? lists them. Give two files to
    compare them, or a FOLDER with one file per rank (rank0.pkl, …) to choose a rank. Needs a
    terminal and the 'explore' extra.
    """
    if len(files) > 2:
        raise UsageError("give one file, or two to compare")
    if "-" in files:
        raise UsageError("explore reads keys from standard input; give a file")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "explore needs a terminal; memreplay peak and memreplay at print the same numbers"
        )
    if os.environ.get("TERM") == "dumb":
        raise UsageError(
            "explore needs a terminal that can move the cursor, and TERM is dumb; memreplay peak"
            " and memreplay at print the same numbers"
        )
    check_textual("explore needs Textual")
    # Import the drawing code while the file is being read.
    drawing = threading.Thread(target=_import_drawing, daemon=True)
    drawing.start()
    folders = [file for file in files if holds_files(file)]
    asked = Begun(options, selection, reading, drawing)
    if not folders:
        return explored(files, asked)[0]
    if len(files) > 1:
        raise UsageError(f"{folders[0]} is a folder; explore it without other files")
    return ranks_explored(folders[0], asked)


def explored(files: tuple[str, ...], asked: Begun) -> tuple[int, bool]:
    """Explore one snapshot or two until the user leaves. Return the exit code, and whether to end
    the program rather than to go back to the ranks.
    """
    with contextlib.ExitStack() as stack:
        panes: list[Pane] = []
        for file in files:

            def work(file: str = file) -> Pane:
                snap = stack.enter_context(opened(file, asked.reading))
                asked.drawing.join()
                return pane_of(snap, file, asked, alone=len(files) == 1)

            pane, code = attempt(file, work)
            if pane is None:
                return code, True
            panes.append(pane)
        from memreplay.explore.app import Explorer
        from memreplay.explore.terminal import on_terminal

        explorer = Explorer(panes, chars_of(asked.options.chars))
        with on_terminal():
            explorer.run(mouse=True)
    return explorer.return_code or 0, explorer.quits


def ranks_explored(folder: str, asked: Begun) -> int:
    """List a folder's ranks and explore the selected ones."""
    from memreplay.explore.ranks import ranks_of_folder

    ranks, code = ranks_of_folder(folder, asked.reading, asked.selection.measure)
    if not ranks:
        return code
    asked.drawing.join()
    from memreplay.explore.ranks_app import Ranks
    from memreplay.explore.terminal import on_terminal

    chosen: int | None = None
    while True:
        listed = Ranks(folder, ranks, chars_of(asked.options.chars), chosen)
        with on_terminal():
            found = listed.run(mouse=True)
        if found is None:
            return listed.return_code or code
        chosen = found.rank
        worse, quits = explored((found.file,), asked)
        if worse or quits:
            return worse or code


def _import_drawing() -> None:
    import memreplay.explore.app
    import memreplay.explore.ranks_app  # noqa: F401


def pane_of(snap: Snapshot, file: str, asked: Begun, *, alone: bool) -> Pane:
    """Build the pane for a snapshot, which is `alone` or compared with another one.

    Raises UsageError for options that the snapshot can't satisfy.
    """
    from msgspec.structs import replace

    from memreplay.analysis.moments.moments import resolve
    from memreplay.commands.view.options import project_options, range_options_of
    from memreplay.explore import look as looks
    from memreplay.explore.explored import Explored
    from memreplay.explore.panes import Pane

    selection = asked.selection
    explored = Explored(snap, selection.rules)
    if not snap.devices:
        raise UsageError("the snapshot has no device with memory")
    device = asked.reading.device
    if device is None:
        device = explored.start_device(failures=alone)
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
    at = asked.options.at
    event = None if at is not None or not alone else explored.first_failure(device)
    if event is None:
        event = resolve(snap, explored.usage(look), at or When("peak", 1))
    look = looks.moved(look, event, *explored.bounds(device))
    explored.rows(look)
    read = (*range_options_of(snap), *project_options(snap.project))
    return Pane(explored, look, file, read, chars_of(asked.options.chars))
