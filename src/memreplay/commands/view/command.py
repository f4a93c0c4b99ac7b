"""`memreplay view`: a snapshot as an interactive page, in one file that any browser opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.folders import holds_files
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import config_options, output_options, reading_options
from memreplay.commands.shared.output import check_output
from memreplay.commands.view.files import page_of_files
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.commands.shared.config import ConfigChoice
    from memreplay.commands.shared.source import Reading
    from memreplay.export.page.records import Page

    Made = tuple[Page, list[bytes]]


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    files: tuple[str, ...]
    output: str | None
    force: bool
    opens: bool
    config: ConfigChoice


@click.command(
    "view",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay view snap.pkl
  memreplay view snap.pkl --open
  memreplay view snap.pkl -o page.html --from 1.5s --to 2s
  memreplay view before.pkl after.pkl -o what-changed.html
  memreplay view run/

{EXIT_CODES}""",
)
@click.argument(
    "files",
    metavar="FILE [FILE2]",
    type=click.Path(allow_dash=True, readable=False, path_type=str),
    nargs=-1,
    required=True,
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@output_options
@config_options
@reading_options
@asks(Asked)
def command(reading: Reading, asked: Asked) -> int:
    """A snapshot as an interactive page.

    Writes one HTML file that any browser opens, and that loads nothing from any network: memory
    over time, every allocation in a picture, who held it at any moment, the allocator's segments
    and blocks, and the page of `memreplay report`. Without -o it is called as FILE is, in this
    folder: snap.pkl.gz makes snap.html.

    Two files are compared. A folder with one file per rank (rank0.pkl, …) is shown rank by rank.
    """
    from memreplay.commands.view.names import page_name

    output = page_name(asked.files) if asked.output is None else asked.output
    if len(asked.files) > 2:
        raise click.UsageError(
            "name one file, two to compare, or the folder in which the ranks' files are"
        )
    if asked.opens and output == "-":
        raise click.UsageError("--open opens a file, and -o - writes none")
    if asked.files == ("-", "-"):
        raise click.UsageError("standard input is one snapshot: name the other one's file")
    check_output(output, force=asked.force, read=asked.files, binary=True)
    made, exit_code = _made(asked, reading)
    if made is None:
        return exit_code
    from memreplay.commands.view.writing import write_page

    write_page(made, output)
    if asked.opens:
        from memreplay.commands.view.browser import open_page

        open_page(output)
    return exit_code


def _made(asked: Asked, reading: Reading) -> tuple[Made | None, int]:
    """The page, or None, and the exit code: the highest of all files."""
    folders = [file for file in asked.files if file != "-" and holds_files(file)]
    if not folders:
        return page_of_files(asked.files, reading, asked.config)
    if len(asked.files) > 1:
        raise UsageError(
            f"{folders[0]} is a folder, and is shown by itself; memreplay diff compares two folders"
        )
    from memreplay.commands.view.ranks import page_of_folder

    return page_of_folder(folders[0], reading, asked.config)
