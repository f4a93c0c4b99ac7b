"""What the texts of block maps share: the table of who blocks free memory, and moments in words."""

from __future__ import annotations

from memreplay.analysis.groups.records import Blocker, Kind
from memreplay.analysis.groups.ways import pinned_title_of
from memreplay.analysis.groups.ways.blocks import pool_label, stream_label
from memreplay.render.document import Row, Table
from memreplay.render.holders import group_row, share, told_apart
from memreplay.render.units import count, counted, percent, signed_duration, size
from memreplay.snapshot.model import By

NO_SEGMENTS = (
    "this file shows no reserved memory: it has neither segments nor segment events; dump with"
    " torch.cuda.memory._dump_snapshot(), which writes both"
)


def blockers_table(
    blockers: tuple[Blocker, ...],
    more: int,
    rest: tuple[int, int],
    whole: int,
    by: By,
    *,
    all_frames: bool,
) -> Table:
    """The groups that block `whole` bytes; `more` are not shown and have `rest` (bytes, blocks)."""
    rows = []
    for blocker in blockers:
        row = group_row(blocker, by, all_frames=all_frames)
        blocked, part, blocks, place = row.cells
        cells = (blocked, part, size(blocker.alone_bytes), blocks, count(blocker.segments), place)
        rows.append(Row(cells, row.below, row.style))
    rows = told_apart(rows, blockers)
    if more:
        words = f"{counted(more, 'more group')} (--top 0 shows all)"
        left = percent(share(rest[0], whole))
        rows.append(Row((size(rest[0]), left, "", count(rest[1]), "", words), style="dim"))
    titles = ("blocked", "share", "alone", "blocks", "segments", pinned_title_of(by))
    return Table(titles, (*("right",) * 5, "left"), tuple(rows), spare=(4, 1, 2))


def elapsed(time_us: int | None, start_us: int | None) -> str:
    """The time since the start; a dash where there is none."""
    if time_us is None or start_us is None:
        return "-"
    return signed_duration(time_us - start_us)


def part_words(pool: tuple[int, int] | None, stream: int, kind: Kind) -> str:
    """`default pool, stream 7, large`: of which requests are served."""
    return f"{place_words(pool, stream)}, {kind}"


def place_words(pool: tuple[int, int] | None, stream: int) -> str:
    """`default pool, stream 7`; the default stream is not said."""
    return pool_label(pool) + (f", {stream_label(stream)}" if stream else "")
