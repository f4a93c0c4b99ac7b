"""Write results to stdout in a suitable form, or atomically to a file."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Annotated

import click

from memreplay.declared import Opt, Options
from memreplay.errors import SnapshotError, UsageError
from memreplay.width import terminal_width

if TYPE_CHECKING:
    from memreplay.render.document import Document

Force = Annotated[
    bool,
    Opt(
        "Allow writing to a terminal, and overwriting a file.",
        brief="Overwrite an existing file.",
    ),
]


class Output(Options, frozen=True):
    """Options for the output path, and for whether to replace an existing file."""

    output: Annotated[
        str | None,
        Opt(
            "Write to this file, atomically.",
            "OUT",
            short="-o",
            path="file",
            brief="Write to this file.",
        ),
    ] = None
    force: Force = False

    def check(
        self, read: Sequence[str] = (), *, binary: bool = False, picture: bool = False
    ) -> None:
        """Raise UsageError for an unsuitable output, like `check_output`."""
        check_output(self.output, force=self.force, picture=picture, binary=binary, read=read)

    @property
    def is_file(self) -> bool:
        """Whether a file was given."""
        return self.output not in (None, "-")

    def check_file(self, read: Sequence[str]) -> None:
        """Raise UsageError if a file was given that shouldn't be written."""
        if self.output is not None:
            check_output(self.output, force=self.force, read=read)

    def write(self, text: str) -> None:
        """Write `text` as lines to the file or stdout."""
        if not self.is_file:
            write(text)
            return
        with byte_output(self.output) as out:
            out.write(f"{text}\n".encode("utf-8", "replace"))


def render_document(document: Document, *, last: Document = ()) -> str:
    """Return the document as text, coloured or plain, as wide as COLUMNS or the terminal.

    If the text is too long for the terminal, append `last`, because the start will have scrolled
    away.
    """
    width = terminal_width()
    if last and _is_too_long(document, width):
        document = (*document, *last)
    if wants_colour():
        from memreplay.render.terminal import render_terminal

        return render_terminal(document, width=width)
    from memreplay.render.plain import render_plain

    return render_plain(document, width=width)


def _is_too_long(document: Document, width: int) -> bool:
    """Return whether stdout is a terminal too short for this many lines plus the next prompt."""
    if not sys.stdout.isatty():
        return False
    from memreplay.render.layout import lay_out

    return len(lay_out(document, width)) >= _terminal_lines()


def _terminal_lines() -> int:
    lines = os.environ.get("LINES", "")
    if lines.isdecimal() and int(lines) > 0:
        return int(lines)
    try:
        return os.get_terminal_size(1).lines or sys.maxsize
    except (OSError, AttributeError):  # a browser has no terminal
        return sys.maxsize


def wants_colour() -> bool:
    """Return whether to write colours to stdout. NO_COLOR and FORCE_COLOR decide this if set;
    otherwise, stdout must be a terminal or say that it shows colours.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    said: bool | None = getattr(sys.stdout, "shows_colour", None)
    if said is not None:
        return said
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def write(text: str) -> None:
    """Write `text` as lines and flush. Characters that stdout can't encode become `?`."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    # click would strip colours even if FORCE_COLOR is set, but wants_colour() has already decided.
    click.echo(text.encode(encoding, "replace").decode(encoding), color=True)


def stdout_is_closed() -> bool:
    """Return whether stdout is known to be a pipe without a reader."""
    import select  # imported late: rarely needed

    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # Windows, or stdin isn't a file
        return False


def check_output(
    path: str | None,
    *,
    force: bool,
    picture: bool = False,
    binary: bool = False,
    read: Sequence[str] = (),
) -> None:
    """Raise UsageError for an unsuitable output. Called before the work, which can take a while.

    `path`: None or `-` for stdout, which must not be a terminal if the output is binary; otherwise
    a file that must not exist yet. `force` allows both. `read`: input files, which are never
    overwritten.
    """
    if path is None or path == "-":
        if sys.stdout.isatty() and not force:
            if picture:
                raise UsageError("stdout is a terminal; write the picture to a file (-o FILE)")
            if binary:
                raise UsageError("stdout is a terminal; give a file or folder (-o OUT)")
            raise UsageError(
                "the output is long and stdout is a terminal; use a pipe (| less), a file (-o"
                " FILE) or --force"
            )
        return
    check_not_read(path, read)
    if not force and _is_file(path):
        raise UsageError(f"{path} already exists; give --force to replace it")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {path}: there is no directory {folder}")


def _is_file(path: str) -> bool:
    """Return whether a path is an existing regular file. Raises UsageError if this can't be
    determined.
    """
    from memreplay.io.whole import mode_of

    try:
        mode = mode_of(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or '').lower()}") from None
    return mode is not None and stat.S_ISREG(mode)


def check_not_read(path: str, read: Iterable[str]) -> None:
    """Raise UsageError if `path` is one of the files in `read`, or a table in one of its
    folders.
    """
    if not os.path.isfile(path):
        return
    for file in read:
        if any(os.path.exists(one) and os.path.samefile(path, one) for one in _files_of(file)):
            raise UsageError(f"cannot write {path}: it's the input snapshot")


def _files_of(file: str) -> tuple[str, ...]:
    """Return the files that are read for `file`: the file itself, or its dataset's tables."""
    from memreplay.io.dataset_files import find_dataset

    try:
        dataset = find_dataset(file)
    except SnapshotError:  # the error is reported when the file is read
        dataset = None
    return (file,) if dataset is None else (file, *dataset.paths.values())


@contextmanager
def byte_output(path: str | None) -> Iterator[IO[bytes]]:
    """Yield a binary stream: stdout for None and `-`, otherwise a file that gets its name when it's
    complete.

    After an error, there is no file, or the old one is unchanged. Devices and named pipes are
    written directly.
    """
    if path is None or path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from memreplay.commands.shared.ending import undone_by_signals
    from memreplay.io.whole import Whole, mode_of

    # Check this before following links, because /dev/stdout may link to a pipe, which isn't in any
    # folder.
    mode = mode_of(path)
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as special:
            yield special
        return
    whole = Whole(path)
    with undone_by_signals(whole.undo), whole.written() as file:
        yield file
