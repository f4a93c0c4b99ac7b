"""Write a page, and print its location and size to stderr."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from memreplay.commands.shared.errors import say
from memreplay.commands.shared.output import byte_output
from memreplay.export.page.html import page_html
from memreplay.render.units import counted, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.export.page.records import Page


def write_page(made: tuple[Page, Sequence[bytes]], output: str, *, replaced: bool = False) -> None:
    """Write the page atomically. `replaced`: whether an older page existed. Raises OSError."""
    page, columns = made
    with byte_output(output) as out:
        for piece in page_html(page, columns):
            out.write(piece)
    if output == "-":
        return
    said = [counted(allocations(page), "allocation")]
    if page.kind == "ranks":
        said.insert(0, counted(len(page.snapshots), "rank"))
    if os.path.isfile(output):
        said.insert(0, size(os.path.getsize(output)))
    say(f"{'replaced' if replaced else 'wrote'} {output}: {', '.join(said)}; open it in a browser")


def allocations(page: Page) -> int:
    """Return the number of allocations over all devices and snapshots."""
    return sum(device.lives.begin.rows for data in page.snapshots for device in data.devices)
