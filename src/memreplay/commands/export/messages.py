"""Print to stderr what an export wrote: the tables or view, the size and the file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memreplay.commands.shared.errors import say
from memreplay.render.units import counted, size

if TYPE_CHECKING:
    from memreplay.commands.export.options import Export

# How to open the views that have a standard viewer.
_OPENS = {
    "perfetto": "open it in ui.perfetto.dev",
    "chrome": "open it in ui.perfetto.dev or chrome://tracing",
    "speedscope": "open it in speedscope.app",
    "pprof": "open it with go tool pprof",
    "collapsed": "flamegraph.pl draws it",
}


def say_file(
    asked: Export, what: str, rows: int, noun: str, choices: Sequence[str] | None = None
) -> None:
    """Print that `what` was written to the file.

    `choices`: the tables to choose from, if the user chose none. If the output is stdout, only
    print that there is a choice.
    """
    hint = None if choices is None else f"--tables NAME for another: {', '.join(choices)}"
    if asked.output is None or asked.output == "-":
        if hint is not None:
            say(f"this is {what}; {hint}")
        return
    said = [f"{what} as {asked.fmt}", counted(rows, noun)]
    if os.path.isfile(asked.output):
        said.append(size(os.path.getsize(asked.output)))
    rest = hint or _OPENS.get(asked.fmt)
    say(f"wrote {asked.output}: {', '.join(said)}" + (f"; {rest}" if rest else ""))


def say_written(asked: Export, what: str) -> None:
    """Print that `what` was written to the file, unless it's stdout."""
    if asked.output is None or asked.output == "-":
        return
    said = [f"{what} as {asked.fmt}"]
    if os.path.isfile(asked.output):
        said.append(size(os.path.getsize(asked.output)))
    say(f"wrote {asked.output}: {', '.join(said)}")


def say_folder(path: str, fmt: str, rows: Mapping[str, int], names: Sequence[str]) -> None:
    """Print that tables were written to a folder, with their numbers of rows and file names."""
    whole = sum(os.path.getsize(os.path.join(path, name)) for name in names)
    tables = ", ".join(f"{table} {n:,}" for table, n in rows.items())
    files = counted(len(names), "file")
    say(f"wrote {path}: {files} as {fmt}, {size(whole)}; rows: {tables}")
