"""Text that is shared by the reports on block maps: the table of blockers, and moments."""

from __future__ import annotations

from msgspec import Struct

from memreplay.analysis.groups.records import Blocker, Kind
from memreplay.analysis.groups.ways import pinned_title_of
from memreplay.analysis.groups.ways.blocks import pool_label, stream_label
from memreplay.render.document import Row, Table
from memreplay.render.holders import distinguish_rows, group_row, share
from memreplay.render.units import count, counted, percent, signed_duration, size
from memreplay.snapshot.model import By

ALONE = "alone: free memory that no other group blocks"


class Rest(Struct, frozen=True):
    """Groups left out of a table."""

    groups: int
    bytes: int
    blocks: int


def blockers_table(
    blockers: tuple[Blocker, ...],
    rest: Rest,
    whole: int,
    by: By,
    *,
    all_frames: bool,
) -> Table:
    """Return a table of the groups that block `whole` bytes. `rest` describes groups that aren't
    shown.
    """
    rows = []
    for blocker in blockers:
        row = group_row(blocker, by, all_frames=all_frames)
        blocked, part, blocks, place = row.cells
        cells = (blocked, part, size(blocker.alone_bytes), blocks, count(blocker.segments), place)
        rows.append(Row(cells, row.below, row.style))
    rows = distinguish_rows(rows, blockers)
    if rest.groups:
        words = f"{counted(rest.groups, 'more group')} (--top 0 shows all)"
        left = percent(share(rest.bytes, whole))
        rows.append(Row((size(rest.bytes), left, "", count(rest.blocks), "", words), style="dim"))
    titles = ("blocked", "share", "alone", "blocks", "segments", pinned_title_of(by))
    return Table(titles, (*("right",) * 5, "left"), tuple(rows), spare=(4, 1, 2))


def elapsed(time_us: int | None, start_us: int | None) -> str:
    """Format the time since the start; a dash if unknown."""
    if time_us is None or start_us is None:
        return "-"
    return signed_duration(time_us - start_us)


def part_text(pool: tuple[int, int] | None, stream: int, kind: Kind) -> str:
    """Describe the requests that a segment serves, e.g. `default pool, stream 7, large`."""
    return f"{place_text(pool, stream)}, {kind}"


def place_text(pool: tuple[int, int] | None, stream: int) -> str:
    """Name a pool and stream, e.g. `default pool, stream 7`; the default stream is left out."""
    return pool_label(pool) + (f", {stream_label(stream)}" if stream else "")
