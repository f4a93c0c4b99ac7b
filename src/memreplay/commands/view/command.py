"""`memreplay view`: write an interactive page as a single HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memreplay.analysis.selecting.selection import TotalMemory
from memreplay.commands.shared.declaring import Arg, as_command
from memreplay.commands.shared.folders import holds_files
from memreplay.commands.shared.output import Output, check_output
from memreplay.commands.shared.source import Reading
from memreplay.commands.view.browser import open_page
from memreplay.commands.view.files import page_of_files
from memreplay.commands.view.names import is_page, page_name
from memreplay.commands.view.ranks import page_of_folder
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.export.page.records import Page

    Made = tuple[Page, list[bytes]]


class ViewOptions(Options, frozen=True):
    """Options for what to do with the page."""

    opens: Annotated[bool, Opt("Open the page in a browser.", flag="--open")] = False
    total_memory: TotalMemory = None


@as_command(
    "view",
    examples=(
        "memreplay view snap.pkl",
        "memreplay view snap.pkl --open",
        "memreplay view run/",
        "memreplay view snap.pkl -o page.html --from 1.5s --to 2s",
        "memreplay view before.pkl after.pkl -o what-changed.html",
    ),
)
def command(
    files: Annotated[tuple[str, ...], Arg("FILE [FILE2]")],
    options: ViewOptions,
    output: Output,
    reading: Reading,
) -> int:
    """Write one HTML file that needs no network: memory over time, every allocation, what held
    memory at any moment, and the `memreplay report` page. The default name is FILE's, in this
    folder: snap.pkl.gz becomes snap.html. Give two files to compare them, or a folder with one file
    per rank (rank0.pkl, …) to browse all ranks.
    """
    page = page_name(files) if output.output is None else output.output
    if len(files) > 2:
        raise UsageError("give one file, two to compare, or a folder of rank files")
    if options.opens and page == "-":
        raise UsageError("--open needs a file; leave out -o -")
    if files == ("-", "-"):
        raise UsageError(
            "only one snapshot can come from standard input; give a file for the other"
        )
    # Silently replacing an earlier page is fine, but replacing any other file isn't.
    replaced = output.output is None and is_page(page)
    check_output(page, force=output.force or replaced, read=files, binary=True)
    made, exit_code = _made(files, reading, options.total_memory)
    if made is None:
        return exit_code
    from memreplay.commands.view.writing import write_page  # imported late: loads the native core

    write_page(made, page, replaced=replaced)
    if options.opens:
        open_page(page)
    return exit_code


def _made(
    files: tuple[str, ...], reading: Reading, total_memory: int | None
) -> tuple[Made | None, int]:
    """Return the page (or None), and the highest exit code of any file."""
    folders = [file for file in files if file != "-" and holds_files(file)]
    if not folders:
        return page_of_files(files, reading, total_memory)
    if len(files) > 1:
        raise UsageError(
            f"{folders[0]} is a folder, which can't be combined with other files;"
            " memreplay diff compares two folders"
        )
    return page_of_folder(folders[0], reading, total_memory)
