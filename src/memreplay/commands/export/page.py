"""Export the page of `memreplay view`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.commands.shared.output import check_output
from memreplay.commands.view.files import page_of_files
from memreplay.errors import UsageError
from memreplay.export.naming import is_folder

if TYPE_CHECKING:
    from memreplay.commands.export.options import Export


def export(asked: Export) -> int:
    """Write the page. Return the exit code. Raises UsageError, OSError."""
    if len(asked.files) > 1:
        raise UsageError("html holds one snapshot; memreplay view compares two, or shows a folder")
    if is_folder(asked.output):
        raise UsageError(f"{asked.output} is a folder: html is one file")
    output = asked.output or "-"
    if output.lower().endswith(".gz"):
        raise UsageError(f"{output}: browsers can't open a compressed page; end the name in .html")
    check_output(output, force=asked.force, binary=True, read=asked.files)
    made, exit_code = page_of_files(asked.files, asked.reading)
    if made is not None:
        from memreplay.commands.view.writing import write_page

        write_page(made, output)
    return exit_code
