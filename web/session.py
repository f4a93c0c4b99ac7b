"""Run memreplay's command lines in a browser's worker, or anywhere else.

The worker (src/worker.ts) links each open file into the working folder, and calls `run` with the
line that the page shows. The files that a command writes there are handed to the page and removed.
"""

from __future__ import annotations

import errno
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

# Commands that need other programs, a terminal, or files that change.
ABSENT = ("completion", "dryrun", "explore", "mcp", "record", "watch")
UNEXPECTED = 70
# The file that has what a command printed, if that isn't text.
OUTPUT = "output"
# As many snapshots are kept as a command compares.
MOST = 2
INSTALL = "pip install memreplay"
ELSEWHERE = f"this page doesn't have it; install memreplay: {INSTALL}"
# What the worker's error for a file that the browser refuses to read is called, and what it means.
UNREADABLE = f": {os.strerror(errno.EIO).lower()}\n"
CHANGED = ": the file changed, or was removed, after you opened it; close it, and open it again\n"
BUGS = "https://github.com/memreplay/memreplay/issues"


class Ran(NamedTuple):
    """What a command line did."""

    code: int
    """The exit code, or `UNEXPECTED` after an error that memreplay doesn't explain."""
    text: str
    """Stdout."""
    said: str
    """Stderr: errors and notes."""
    written: dict[str, bytes]
    """Files by name."""


class Kept:
    """The snapshots that were read last, so that a file isn't read again for another command.

    A snapshot is found by its file's real path: the worker doesn't give that to another file, and
    a command line can spell a name in several ways.
    """

    def __init__(self) -> None:
        self._snapshots: list[tuple[str, object, Any]] = []

    def lend(self, file: str, reading: object, read: Callable[[], Any]) -> Any:
        """Return the snapshot of a file, read with these options."""
        path, asked = os.path.realpath(file), (file, reading)
        for one in self._snapshots:
            if one[:2] == (path, asked):
                self._snapshots.remove(one)
                self._snapshots.append(one)
                return one[2]
        # Make room first: the heap ends at 4 GB.
        del self._snapshots[: max(0, len(self._snapshots) - MOST + 1)]
        try:
            snapshot = read()
        except MemoryError:
            if not self._snapshots:
                raise
            self._snapshots.clear()
            snapshot = read()
        self._snapshots.append((path, asked, snapshot))
        return snapshot

    def forget(self, file: str) -> None:
        """Drop the snapshots of a file."""
        path = os.path.realpath(file)
        self._snapshots = [one for one in self._snapshots if one[0] != path]


kept = Kept()


# Imported while the user chooses a file, because the first commands need them.
AHEAD = (
    "memreplay.commands.view.command",
    "memreplay.commands.view.files",
    "memreplay.commands.report.command",
    "memreplay.commands.view.find",
    "memreplay.commands.view.writing",
    "memreplay.export.page.pages",
    "memreplay.commands.peak.command",
)


def load() -> None:
    """Import what every command needs, before there is a file."""
    from memreplay.__main__ import _load_msgspec

    _load_msgspec()
    import memreplay._core
    import memreplay.commands.app
    import memreplay.errors
    import memreplay.render.plain
    import memreplay.snapshot.snapshot
    from memreplay.commands.shared import errors, listed, source

    source.keep = kept.lend
    memreplay.errors.install_command = lambda extra: ELSEWHERE  # noqa: ARG005
    errors.NO_NUMPY = f"this needs NumPy: {ELSEWHERE}"
    for title, names in [*listed.SECTIONS.items(), ("", listed.COMMANDS)]:
        for name in ABSENT:
            names.pop(name, None)
        if not names:
            del listed.SECTIONS[title]


def ahead(number: int) -> bool:
    """Import a module of `AHEAD`; return whether there are more."""
    import_module(AHEAD[number])
    return number + 1 < len(AHEAD)


def run(line: str, columns: int) -> Ran:
    """Run a command line like `memreplay peak snap.pkl` in the current folder.

    `columns`: the width of text.
    """
    os.environ["COLUMNS"] = str(columns)
    before = set(_files())
    with _captured() as (out, err):
        code = _answer(line)
    written = {}
    for name in sorted(set(_files()) - before):
        with open(name, "rb") as file:
            written[name] = file.read()
        os.unlink(name)
    try:
        text = out.getvalue().decode()
    except UnicodeDecodeError:
        text, written[OUTPUT] = "", out.getvalue()
    said = err.getvalue().decode().replace(UNREADABLE, CHANGED)
    return Ran(code, text, said, written)


def _answer(line: str) -> int:
    try:
        words = shlex.split(line)
    except ValueError as error:  # a quotation that doesn't end
        sys.stderr.write(f"memreplay: error: {str(error).lower()}\n")
        return 2
    if words[:1] == ["memreplay"]:
        del words[0]
    if words[:1] and words[0] in ABSENT:
        sys.stderr.write(
            f"memreplay: error: {words[0]} doesn't work in a browser; install memreplay:"
            f" {INSTALL}\n"
        )
        return 2
    from memreplay.commands.app import app

    try:
        app(words, prog_name="memreplay")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"memreplay: error: this needs the package {error.name}, which isn't in the browser;"
            f" install memreplay: {INSTALL}\n"
        )
        return 2
    except Exception as error:
        said = " ".join(str(error).split())
        sys.stderr.write(
            f"memreplay: error: this is a bug ({type(error).__name__}: {said}). Please report it"
            f" with this line: {BUGS}\n"
        )
        return UNEXPECTED
    return 0


@contextmanager
def _captured() -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Replace the standard streams by ones in memory."""
    streams = io.BytesIO(), io.BytesIO()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(one, "utf-8", "replace", newline="\n", write_through=True)
        for one in streams
    )
    try:
        yield streams
    finally:
        # Keep the streams open when the wrappers are deleted.
        for one in (sys.stdout, sys.stderr):
            one.detach()
        sys.stdout, sys.stderr = before


def _files() -> Iterator[str]:
    """Name the files below the current folder that aren't links."""
    for folder, _, names in os.walk("."):
        for name in names:
            path = os.path.normpath(os.path.join(folder, name))
            if not os.path.islink(path):
                yield path
