"""`memreplay explore`: a snapshot in the terminal, by keys."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects_with_rules
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.folders import holds_files
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    by_option,
    config_options,
    measure_option,
    part_options,
    reading_options,
)
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.shared.when import WhenType
from memreplay.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.explore.curve import Chars
    from memreplay.commands.explore.panes import Pane
    from memreplay.snapshot.model import When
    from memreplay.snapshot.snapshot import Snapshot


class Asked(Struct, frozen=True):
    """Where to begin, and how to draw."""

    when: When
    chars: str


@click.command(
    "explore",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay explore snap.pkl
  memreplay explore snap.pkl --at end --by category
  memreplay explore snap.pkl.gz --device 1 --measure held
  memreplay explore snap.pkl --include attention --min-bytes 1MiB
  memreplay explore before.pkl after.pkl
  memreplay explore run/

{EXIT_CODES}""",
)
@click.argument(
    "files",
    metavar="FILE [FILE2] | FOLDER",
    type=click.Path(allow_dash=True, readable=False, path_type=str),
    nargs=-1,
    required=True,
)
@click.option(
    "--at",
    "when",
    type=WhenType(),
    default="peak",
    metavar="WHEN",
    help="Where to begin: peak (peak:2 for the second), start, end, an event (1200), a time since"
    " the start (1.5s), @SECONDS since the epoch, a UTC time, or an annotation.  [default: peak]",
)
@click.option(
    "--chars",
    type=click.Choice(["auto", "braille", "blocks", "ascii"]),
    default="auto",
    show_default=True,
    help="What to draw with; auto takes braille where the terminal writes Unicode.",
)
@measure_option
@by_option
@part_options
@filter_options
@config_options
@reading_options
@selects_with_rules
@asks(Asked)
def command(files: tuple[str, ...], reading: Reading, selection: Selection, asked: Asked) -> int:
    """A snapshot in the terminal, by keys.

    Shows memory over time in FILE, and below it the calls, groups, allocations or segments that
    held memory at the cursor. Keys move it, zoom, search, filter, and switch the measure; ? lists
    them. Two files are compared: their cursors are in sync, and below is what differs. Of a FOLDER
    with one file per rank (rank0.pkl, …) all ranks are listed, and one is chosen.

    Needs a terminal, and Textual (the extra 'explore').
    """
    if len(files) > 2:
        raise click.UsageError("name one file, or two to compare")
    if "-" in files:
        raise UsageError("standard input is the keyboard here: name a file")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("explore needs a terminal; memreplay peak and at print what it shows")
    check_textual()
    # What draws is imported while the file is read.
    drawing = threading.Thread(target=_import_drawing, daemon=True)
    drawing.start()
    folders = [file for file in files if holds_files(file)]
    if not folders:
        return explored(files, reading, selection, asked, drawing)
    if len(files) > 1:
        raise UsageError(f"{folders[0]} is a folder, and is explored by itself")
    return ranks_explored(folders[0], reading, selection, asked, drawing)


def explored(
    files: tuple[str, ...],
    reading: Reading,
    selection: Selection,
    asked: Asked,
    drawing: threading.Thread,
) -> int:
    """One snapshot, or two, until somebody quits: the exit code."""
    with contextlib.ExitStack() as stack:
        panes: list[Pane] = []
        for file in files:

            def work(file: str = file) -> Pane:
                snap = stack.enter_context(opened(file, reading))
                drawing.join()
                return pane_of(snap, file, selection, asked, reading)

            pane, code = attempt(file, work)
            if pane is None:
                return code
            panes.append(pane)
        from memreplay.commands.explore.app import Explorer

        explorer = Explorer(panes, chars_of(asked.chars))
        explorer.run(mouse=True)
    return explorer.return_code or 0


def ranks_explored(
    folder: str,
    reading: Reading,
    selection: Selection,
    asked: Asked,
    drawing: threading.Thread,
) -> int:
    """The ranks in a folder: a list, and from it one after the other."""
    from memreplay.commands.explore.ranks import ranks_of_folder

    ranks, code = ranks_of_folder(folder, reading, selection.measure)
    if not ranks:
        return code
    drawing.join()
    from memreplay.commands.explore.ranks_app import Ranks

    chosen: int | None = None
    while True:
        listed = Ranks(folder, ranks, chars_of(asked.chars), chosen)
        found = listed.run(mouse=True)
        if found is None:
            return listed.return_code or code
        chosen = found.rank
        worse = explored((found.file,), reading, selection, asked, drawing)
        if worse:
            return worse


def check_textual() -> None:
    """Raises MissingExtraError where Textual is not installed."""
    from importlib.util import find_spec

    if find_spec("textual") is None:
        raise MissingExtraError("explore needs Textual", "explore")


def _import_drawing() -> None:
    import memreplay.commands.explore.app
    import memreplay.commands.explore.ranks_app  # noqa: F401


def pane_of(
    snap: Snapshot, file: str, selection: Selection, asked: Asked, reading: Reading
) -> Pane:
    """The part of the screen of a snapshot that was read. Raises UsageError for what it has not."""
    from msgspec.structs import replace

    from memreplay.analysis.moments.moments import resolve
    from memreplay.commands.explore import look as looks
    from memreplay.commands.explore.explored import Explored
    from memreplay.commands.explore.panes import Pane
    from memreplay.commands.view.options import project_words, read_words

    explored = Explored(snap, selection.rules)
    if not snap.devices:
        raise UsageError("the snapshot has no device with memory")
    device = reading.device
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
    event = resolve(snap, explored.usage(look), asked.when)
    look = looks.moved(look, event, *explored.bounds(device))
    explored.rows(look)
    read = (*read_words(snap), *project_words(snap.project))
    return Pane(explored, look, file, read, chars_of(asked.chars))


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
