"""`memreplay slice`: a part of a snapshot as a smaller one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import file_argument, force_option, reading_options
from memreplay.commands.shared.output import byte_output, check_output
from memreplay.commands.shared.size import SizeType
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.commands.slice.find import Strip
    from memreplay.commands.slice.result import Sliced
    from memreplay.io.packing import Format


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    min_bytes: int
    strip: Strip | None
    fmt: Format | None
    output: str | None
    force: bool


@click.command(
    "slice",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay slice snap.pkl --from 1.5s --to 2s -o small.pickle
  memreplay slice snap.pkl --from 120000 --to 130000 -o small.pkl.gz
  memreplay slice snap.pkl --min-bytes 1MiB --strip-frames=plumbing -o small.pkl
  memreplay slice snap.pkl --device 3 --to 500 -o small.json

{EXIT_CODES}""",
)
@file_argument
@reading_options
@click.option(
    "--min-bytes",
    type=SizeType(),
    default=0,
    metavar="SIZE",
    help="Leave out allocations smaller than this (64K, 1MiB), with all their events.",
)
@click.option(
    "--strip-frames",
    "strip",
    type=click.Choice(["all", "plumbing"]),
    is_flag=False,
    flag_value="all",
    help="Leave out all frames, or those of PyTorch, Python and C++ (plumbing).",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["pickle", "json"]),
    help="What to write (default: by the ending of OUT, else pickle).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True, readable=False, path_type=str),
    metavar="OUT",
    help="Write to this file, which is never left half-written; compressed if its name ends in .gz,"
    " .zst, .xz or .bz2.",
)
@force_option
@asks(Asked)
def command(file: str, reading: Reading, asked: Asked) -> int:
    """A part of a snapshot, as a smaller snapshot.

    Keeps the events from --from to --to, the segments as they are at the end of that range, and
    what was live before it, with stacks, so that memory over time stays the same. The official
    viewer (pytorch.org/memory_viz), torch.cuda._memory_viz and memreplay itself can read the
    result.
    """
    from memreplay.io.packing import by_name, packed

    named, packing = by_name(asked.output or "")
    check_output(asked.output, force=asked.force, read=[file], binary=True)
    fmt: Format = asked.fmt or named or "pickle"

    def work() -> tuple[Sliced, Iterator[bytes]]:
        from memreplay.commands.slice.find import cut
        from memreplay.commands.slice.unknown import unknown_of

        with opened(file, reading) as snapshot:
            stripped = asked.strip is not None
            unknown = unknown_of(snapshot, file, reading, stripped=stripped, fmt=fmt)
            return cut(snapshot, min_bytes=asked.min_bytes, strip=asked.strip, unknown=unknown)

    made, exit_code = attempt(file, work)
    if made is None:
        return exit_code
    sliced, pieces = made
    if fmt == "json":
        from memreplay.snapshot.conversion import as_json

        pieces = as_json(b"".join(pieces))
    written = 0
    with byte_output(asked.output) as out, packed(out, packing) as plain:
        for piece in pieces:
            plain.write(piece)
            written += len(piece)
    from memreplay.commands.slice.text import lines

    for line in lines(sliced):
        click.echo(line, err=True)
    return exit_code
