"""Compute the expected rows of a diff from `peak --by line` of both snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from memreplay.analysis.comparing.records import DiffRow
from memreplay.analysis.comparing.sides import Scope, SnapshotSide
from memreplay.analysis.selecting.selection import Selection
from memreplay.snapshot.model import Frame, Group
from memreplay.snapshot.snapshot import Snapshot
from tests.oracle_groups import put_down_to

Place = tuple[str, str, int]  # function, file, line


def lines_held(snap: Snapshot, device: int, scope: Scope) -> Counter[Place]:
    """Return each line's bytes, as in `--by line`; for plumbing, each function's bytes."""
    groups = SnapshotSide(snap, Selection(by="line")).at(device, scope).groups
    found: Counter[Place] = Counter()
    for group in groups:
        if group.frames:
            found[place(group.frames[0], user=bool(group.user))] += group.bytes
    return found


def place(frame: Frame, *, user: bool) -> Place:
    return frame.function, frame.file, frame.line if user else 0


def row_place(row: DiffRow | Group) -> Place:
    """Return the line that a row is attributed to."""
    if row.user:
        return place(row.frames[row.user[0]], user=True)
    function, file, _ = put_down_to([(one.function, one.file, one.line) for one in row.frames])
    return function, file, 0


def check_lines(
    rows: Iterable[DiffRow], base: Counter[Place], new: Counter[Place]
) -> list[tuple[Place, tuple[int, int], tuple[int, int]]]:
    """Return the lines on both sides whose rows are wrong, each with its row and the true
    values.
    """
    ours: Counter[Place] = Counter()
    theirs: Counter[Place] = Counter()
    for row in rows:
        if row.frames and not row.below:
            ours[row_place(row)] += row.base_bytes
            theirs[row_place(row)] += row.new_bytes
    return [
        (line, (ours[line], theirs[line]), (base[line], new[line]))
        for line in base.keys() & new.keys()
        if (ours[line], theirs[line]) != (base[line], new[line])
    ]
