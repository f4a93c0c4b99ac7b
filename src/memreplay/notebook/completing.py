"""Complete the arguments of `%memreplay` and `%%memreplay`, like a shell."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click

_BEGIN = re.compile(r"\s*(%{0,2})memreplay\s")


def completions(text: str) -> list[str] | None:
    """Return completions for a line's last word; None for a file, which IPython completes."""
    from click.shell_completion import ShellComplete

    begin = _BEGIN.match(text)
    if begin is None:
        return None
    words, word = _words(text[begin.end() :])
    command = _of_a_cell() if begin[1] == "%%" else _of_a_line()
    found = ShellComplete(command, {}, "memreplay", "").get_completions(words, word)
    if any(item.type != "plain" for item in found):
        return None
    return [item.value for item in found]


def _of_a_line() -> click.Command:
    from memreplay.commands.app import app

    return app


def _of_a_cell() -> click.Command:
    from memreplay.notebook.recording import options

    return options


def complete(_shell: object, event: Any) -> list[str]:
    """IPython's hook."""
    from IPython.core.error import TryNext

    found = completions(event.text_until_cursor)
    if found is None:
        raise TryNext
    return found


def _words(line: str) -> tuple[list[str], str]:
    """Split a line into complete words and the unfinished one."""
    if not line or line[-1].isspace():
        return _split(line), ""
    *whole, last = _split(line)
    return whole, last


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # the cursor is inside quotes
        return line.split()
