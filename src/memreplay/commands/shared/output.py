"""Writes results: to stdout, in the form that fits what it is, or whole into a file."""

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
        "Write to a terminal, and overwrite a file that exists.",
        brief="Replace what exists.",
    ),
]


class Output(Options, frozen=True):
    """Where a result goes, and whether it may replace what is there."""

    output: Annotated[
        str | None,
        Opt(
            "Write to this file, which is never left half-written.",
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
        """Raise UsageError where the output should not go, as `check_output` does."""
        check_output(self.output, force=self.force, picture=picture, binary=binary, read=read)

    @property
    def is_file(self) -> bool:
        """Whether it is a file that was named."""
        return self.output not in (None, "-")

    def check_file(self, read: Sequence[str]) -> None:
        """Raise UsageError where a file that was named shouldn't be written."""
        if self.output is not None:
            check_output(self.output, force=self.force, read=read)

    def write(self, text: str) -> None:
        """Write `text` as lines: into the file, else as `write` does."""
        if not self.is_file:
            write(text)
            return
        with byte_output(self.output) as out:
            out.write(f"{text}\n".encode("utf-8", "replace"))


def render_document(document: Document, *, last: Document = ()) -> str:
    """The document as text, coloured or plain, as wide as COLUMNS says or the terminal is.

    On a terminal that does not show it whole, `last` stands at its end: what one wants to see first
    has gone by.
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
    """Whether stdout is a terminal that has fewer lines, the next prompt's among them."""
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
    except OSError:
        return sys.maxsize


def wants_colour() -> bool:
    """Whether stdout is a terminal, or says that it shows colours; NO_COLOR, then FORCE_COLOR,
    overrule it when not empty."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    said: bool | None = getattr(sys.stdout, "shows_colour", None)
    if said is not None:
        return said
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def write(text: str) -> None:
    """Write `text` as lines, with `?` for what stdout's encoding lacks, and flush."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    # click would strip the colours that FORCE_COLOR asked for; wants_colour() has decided already.
    click.echo(text.encode(encoding, "replace").decode(encoding), color=True)


def stdout_is_closed() -> bool:
    """Whether stdout is a pipe that nobody reads any more, as far as can be told."""
    import select  # late: few commands wait for anything

    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):  # Windows; no file at all
        return False


def check_output(
    path: str | None,
    *,
    force: bool,
    picture: bool = False,
    binary: bool = False,
    read: Sequence[str] = (),
) -> None:
    """Raise UsageError where output should not go: asked before the work, as it may take a while.

    `path` None or `-` is stdout, which should be no terminal; a file should not be there yet.
    `force` allows both. `read` are the files that are read: nothing goes over these.
    """
    if path is None or path == "-":
        if sys.stdout.isatty() and not force:
            if picture:
                raise UsageError("stdout is a terminal: send the picture into a file (-o FILE)")
            if binary:
                raise UsageError("stdout is a terminal: name a file or a folder (-o OUT)")
            raise UsageError(
                "this is long, and stdout is a terminal: send it into a pipe (| less) or a file"
                " (-o FILE), or give --force"
            )
        return
    check_not_read(path, read)
    if not force and _is_file(path):
        raise UsageError(f"{path} already exists; give --force to replace it")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {path}: there is no directory {folder}")


def _is_file(path: str) -> bool:
    """Whether there is a regular file. Raises UsageError where that cannot be told."""
    from memreplay.io.whole import mode_of

    try:
        mode = mode_of(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or '').lower()}") from None
    return mode is not None and stat.S_ISREG(mode)


def check_not_read(path: str, read: Iterable[str]) -> None:
    """Raises UsageError where `path` is one of these files, or a table of such a folder."""
    if not os.path.isfile(path):
        return
    for file in read:
        if any(os.path.exists(one) and os.path.samefile(path, one) for one in _files_of(file)):
            raise UsageError(f"cannot write {path}: it is the snapshot that is read")


def _files_of(file: str) -> tuple[str, ...]:
    """What is read where `file` is named: itself, or the tables of its dataset."""
    from memreplay.io.dataset_files import find_dataset

    try:
        dataset = find_dataset(file)
    except SnapshotError:  # reading it says so
        dataset = None
    return (file,) if dataset is None else (file, *dataset.paths.values())


@contextmanager
def byte_output(path: str | None) -> Iterator[IO[bytes]]:
    """Where to write bytes: stdout for None and `-`, else a file, which gets its name when whole.

    So after an error there is none, or the one that was there before. What is no regular file (a
    device, a named pipe) is written to as it is.
    """
    if path is None or path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from memreplay.commands.shared.ending import undone_by_signals
    from memreplay.io.whole import Whole, mode_of

    # Before links are followed: that of /dev/stdout may lead to a pipe, which no folder has.
    mode = mode_of(path)
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as special:
            yield special
        return
    whole = Whole(path)
    with undone_by_signals(whole.undo), whole.written() as file:
        yield file
