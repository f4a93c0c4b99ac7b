"""Compare categories between two moments, and find the line that changed most in each."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.comparing.records import CategoryChange
from memreplay.analysis.comparing.rows import by_line, compared
from memreplay.analysis.comparing.sides import Scope, Sided, SnapshotSide
from memreplay.snapshot.model import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_WITH_CODE = 4  # maximum number of categories to find lines for; the others changed little


def category_changes(
    sides: tuple[SnapshotSide, SnapshotSide],
    devices: tuple[int, int],
    scope: Scope,
    found: tuple[Sided, Sided],
) -> tuple[CategoryChange, ...]:
    """Return every changed category, largest change first.

    `found`: the totals at both moments. For the first few, find the line that changed most in the
    same direction.
    """
    groups = [
        _by_category(side, device, scope, at.side.event_index)
        for side, device, at in zip(sides, devices, found, strict=True)
    ]
    sums: Counter[str] = Counter()
    for sign, of_side in zip((-1, 1), groups, strict=True):
        for category, its in of_side.items():
            sums[category] += sign * sum(one.bytes for one in its)
    changed = [(name, change) for name, change in sums.items() if change]
    changed.sort(key=lambda one: (-abs(one[1]), one[0]))
    rows = []
    for number, (category, change) in enumerate(changed):
        base, new = (of_side.get(category, []) for of_side in groups)
        row = CategoryChange(
            category=category,
            base_bytes=sum(one.bytes for one in base),
            new_bytes=sum(one.bytes for one in new),
            change_bytes=change,
            label="",
        )
        rows.append(_with_code(row, base, new, found) if number < MOST_WITH_CODE else row)
    return tuple(rows)


def _by_category(
    side: SnapshotSide, device: int, scope: Scope, event: int
) -> dict[str, list[Group]]:
    """Return each category's groups by line."""
    usage = side.usage(device, scope)
    by_both = side.grouper("category,line").groups(usage, event, 0)[0]
    found: dict[str, list[Group]] = defaultdict(list)
    for group in by_both:
        category, line = group.of
        one = replace(
            group, label=line.text, frames=line.frames, user=line.user, libraries=line.libraries
        )
        found[category.text].append(replace(one, of=()))
    return found


def _with_code(
    row: CategoryChange, base: Sequence[Group], new: Sequence[Group], found: tuple[Sided, Sided]
) -> CategoryChange:
    """Add to a category's change the line that changed most in the same direction."""
    sides = (
        at._replace(groups=list(groups), most_left_out=None)
        for at, groups in zip(found, (base, new), strict=True)
    )
    sign = 1 if row.change_bytes > 0 else -1
    rows = by_line(compared(*sides))
    most = max(rows, key=lambda one: sign * one.change_bytes, default=None)
    if most is None or sign * most.change_bytes <= 0:
        return row
    return replace(
        row,
        line_change_bytes=most.change_bytes,
        label=most.label,
        frames=most.frames,
        user=most.user,
        libraries=most.libraries,
    )
