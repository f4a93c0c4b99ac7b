"""Runs a command line in this process, and shows in the cell what it writes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, TextIO

from memreplay.errors import UsageError
from memreplay.notebook.ran import Ran
from memreplay.notebook.streams import CellBytes, CellText

if TYPE_CHECKING:
    import click

    from memreplay.snapshot.page_view import PageView

COLUMNS = 100  # of a cell's output, which nobody can ask
# What runs a program, whose output would go past the cell, draws on a terminal, or serves an agent.
ELSEWHERE = {
    "record": "record runs a program of its own: %%memreplay records a cell",
    "dryrun": "dryrun runs a program of its own: give it to a shell (!memreplay dryrun …)",
    "explore": "explore needs a terminal: %memreplay view shows a page",
    "mcp": "mcp talks to an agent, which starts it: memreplay help mcp says how",
}


def split(line: str) -> tuple[str, ...]:
    """The words of a line as a shell has them, with ~ for the home folder, and no patterns.

    Raises UsageError for a quote that nothing ends.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{str(error).lower()}: {line}") from None
    return tuple(os.path.expanduser(word) if word.startswith("~") else word for word in words)


def run(
    arguments: Sequence[str],
    *,
    inline: bool,
    height: int | None = None,
    is_shown: Callable[[], bool] = lambda: False,
) -> Ran:
    """Runs it. `inline`: the cell shows pages and colours, as a notebook does, and is no terminal.

    Whatever the command line is, this returns; nothing but a mistake of memreplay's is raised.
    """
    words = tuple(arguments)
    text = CellText(sys.stdout, shows_colour=_shows_colour(inline), columns=_columns(inline))
    notes = CellText(sys.stderr, shows_colour=False, columns=text.columns)
    page = None
    if words and words[0] in ELSEWHERE and not {"-h", "--help"} & set(words):
        notes.write(f"memreplay: error: {ELSEWHERE[words[0]]}\n")
        exit_code = UsageError.exit_code
    elif inline and words and words[0] == "view" and _is_for_the_cell(words[1:]):
        exit_code, page = _run_view(words, text, notes, height)
    else:
        exit_code = _exit_code(words, text, notes)
    text.end()
    if exit_code and inline:
        notes.write(f"memreplay: exit code {exit_code}\n")
    return Ran(words, exit_code, text.text(), notes.text(), page, is_shown, inline)


def _exit_code(words: Sequence[str], out: TextIO | CellText | CellBytes, notes: CellText) -> int:
    from memreplay.commands.app import app

    with redirect_stdout(out), redirect_stderr(notes):
        try:
            app(list(words), prog_name="memreplay")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except KeyboardInterrupt:  # amid loading modules; else the command line sees to it
            return 130
    return 0


# ---- pages


def _view() -> click.Command:
    from memreplay.commands.view.command import command

    return command


def _is_for_the_cell(options: Sequence[str]) -> bool:
    """Whether the page should be shown in the cell: where nothing says that it goes elsewhere."""
    with _view().make_context("view", list(options), resilient_parsing=True) as context:
        asked = context.params
    return not (asked.get("output") or asked.get("opens"))


def _run_view(
    words: tuple[str, ...], text: CellText, notes: CellText, height: int | None
) -> tuple[int, PageView | None]:
    from IPython.display import display

    from memreplay.snapshot.page_view import HEIGHT, PageView

    kept = CellBytes()
    exit_code = _exit_code((*words, "-o", "-"), kept, notes)
    made = kept.buffer.getvalue()
    if not made.startswith(b"<!doctype html>"):
        text.write(made.decode())  # its help
        return exit_code, None
    page = PageView(made, _title(words), height or HEIGHT)
    display(page)  # type: ignore[no-untyped-call]
    return exit_code, page


def _title(words: tuple[str, ...]) -> str:
    from memreplay.commands.view.names import short_name

    with _view().make_context("view", list(words[1:]), resilient_parsing=True) as context:
        files: tuple[str, ...] = context.params["files"]
    return ", ".join(map(short_name, files))


# ---- the cell


def _shows_colour(inline: bool) -> bool:
    from memreplay.commands.shared.output import wants_colour

    if inline:
        return not os.environ.get("NO_COLOR")
    return wants_colour()


def _columns(inline: bool) -> int:
    from memreplay.width import terminal_width

    if inline:
        # The terminal that a notebook's server was started from is not where this is shown.
        said = os.environ.get("COLUMNS", "")
        return int(said) if said.isdecimal() and int(said) > 0 else COLUMNS
    return terminal_width()
