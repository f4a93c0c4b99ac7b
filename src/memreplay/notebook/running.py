"""Run a command line in this process and show its output in the cell."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, TextIO

from memreplay.errors import UsageError
from memreplay.notebook.output import CommandOutput
from memreplay.notebook.streams import CellBytes, CellText

if TYPE_CHECKING:
    import click

    from memreplay.snapshot.page_view import PageView

COLUMNS = 100  # assumed width of a cell, because it can't be queried
# Commands that can't run in a cell, because they run a program (whose output would bypass the
# cell), draw on a terminal, or serve an agent.
ELSEWHERE = {
    "record": "record runs a separate program; use %%memreplay to record a cell",
    "dryrun": "dryrun runs a separate program; use the shell (!memreplay dryrun …)",
    "explore": "explore needs a terminal; use %memreplay view for a page",
    "mcp": "mcp is started by an agent; see memreplay help mcp",
}


def split(line: str) -> tuple[str, ...]:
    """Split a line like a shell, expanding ~ but not patterns. Raises UsageError for an unclosed
    quote.
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
) -> CommandOutput:
    """Run a command. `inline`: the cell shows pages and colours, as in a notebook.

    Never raises for any command line, except for bugs.
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
    return CommandOutput(words, exit_code, text.text(), notes.text(), page, is_shown, inline)


def _exit_code(words: Sequence[str], out: TextIO | CellText | CellBytes, notes: CellText) -> int:
    from memreplay.commands.app import app

    with redirect_stdout(out), redirect_stderr(notes):
        try:
            app(list(words), prog_name="memreplay")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except KeyboardInterrupt:  # during imports; later, the command line handles Ctrl-C
            return 130
    return 0


# ---- pages


def _view() -> click.Command:
    from memreplay.commands.view.command import command

    return command


def _is_for_the_cell(options: Sequence[str]) -> bool:
    """Return whether to show the page in the cell. This is the case unless an option sends it
    elsewhere.
    """
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
        text.write(made.decode())  # the command's help
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
        # COLUMNS describes the terminal of the notebook's server.
        said = os.environ.get("COLUMNS", "")
        return int(said) if said.isdecimal() and int(said) > 0 else COLUMNS
    return terminal_width()
