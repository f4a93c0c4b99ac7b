"""`memreplay convert`: a snapshot in another form, and nothing else about it changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import file_argument, force_option, limit_option
from memreplay.commands.shared.output import byte_output, check_output
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.io.packing import Format
    from memreplay.snapshot.snapshot import Snapshot


class _CannotWriteError(Exception):
    """Writing failed, which is no fault of the file that is read."""


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    output: str
    fmt: Format | None
    protocol: str | None
    limits: tuple[tuple[str, int], ...]
    force: bool


@click.command(
    "convert",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay convert snap.pickle -o snap.pkl.zst
  memreplay convert snap.json.gz -o snap.pkl
  memreplay convert snap.pkl --protocol 2 -o for-python2.pkl
  memreplay convert snap.pkl --format json -o - | jq .segments

{EXIT_CODES}""",
)
@file_argument
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, readable=False, path_type=str),
    metavar="OUT",
    help="Write to this file, which is never left half-written. Its name says the form: .pkl,"
    " .pickle or .json, with .gz, .zst, .xz or .bz2 after it to compress it.",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["pickle", "json"]),
    help="What to write (default: by the ending of OUT, else what FILE is).",
)
@click.option(
    "--protocol",
    type=click.Choice(["2", "3", "4", "5"]),
    help="The pickle protocol to write (default: as FILE has it; 4 from 5 and from JSON).",
)
@limit_option
@force_option
@asks(Asked)
def command(file: str, asked: Asked) -> int:
    """A snapshot in another form: compressed, JSON or pickle.

    The content stays the same, even where memreplay does not know a key. A file that is not a
    snapshot, or that is cut off, is refused.
    """
    from memreplay.io.dataset_files import find_dataset
    from memreplay.io.packing import by_name, packed

    tables, exit_code = attempt(file, lambda: find_dataset(file))
    if exit_code:
        return exit_code
    if tables is not None:
        what = "a folder of tables" if os.path.isdir(file) else "a table"
        raise UsageError(f"{file} is {what}: memreplay slice makes a snapshot of it")
    named, packing = by_name(asked.output)
    if (asked.fmt or named) == "json" and asked.protocol is not None:
        raise UsageError("JSON has no protocol")
    check_output(asked.output, force=asked.force, binary=True)
    try:
        with byte_output(asked.output) as out, packed(out, packing) as plain:
            done, exit_code = attempt(
                file,
                lambda: _converted(
                    file, plain.write, asked.fmt or named, asked.protocol, asked.limits
                ),
            )
            if done is None:
                raise _NotConvertedError
    except _NotConvertedError:
        return exit_code
    except _CannotWriteError as error:
        raise error.__cause__ or error from None
    return exit_code


class _NotConvertedError(Exception):
    """What was written is worth nothing; why not has been said."""


def _converted(
    file: str,
    write: Callable[[bytes], object],
    fmt: Format | None,
    protocol: str | None,
    limits: tuple[tuple[str, int], ...],
) -> Snapshot:
    import sys

    from memreplay.commands.shared.progress import reading_progress
    from memreplay.io.limits import Limits
    from memreplay.snapshot.conversion import convert

    def checked(data: bytes) -> None:
        try:
            write(data)
        except OSError as error:
            raise _CannotWriteError from error

    with reading_progress(file) as progress:
        return convert(
            sys.stdin.buffer if file == "-" else file,
            checked,
            fmt=fmt,
            protocol=None if protocol is None else int(protocol),
            limits=Limits(**dict(limits)),
            progress=progress,
        )
