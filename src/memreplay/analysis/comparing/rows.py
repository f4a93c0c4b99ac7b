"""Compare the groups of two sides. The result has a row per group with its change."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.code.naming import name_of_stack
from memreplay.analysis.code.plumbing import shown_frame
from memreplay.analysis.comparing.code import Stacks, operator_below
from memreplay.analysis.comparing.matching import Match, match_stacks, same_functions
from memreplay.analysis.comparing.records import DiffRow, Status
from memreplay.analysis.comparing.sides import REST, Sided, trimmed
from memreplay.snapshot.model import Group, Label

if TYPE_CHECKING:
    from memreplay.snapshot.model import Frame

    Seen = tuple[Frame, ...]


def compared(base: Sided, new: Sided, *, exact: bool = False, trim: bool = False) -> list[DiffRow]:
    """Return a row for every group, largest change first. The rows add up to the total change.

    `exact`: only match identical stacks. `trim`: reduce the new side's stacks as a baseline does.
    Groups that the base left out form one row. Unmatched groups of the new side that are no larger
    are added to that row, because the base may have left them out, too.
    """
    theirs = trimmed(new.groups) if trim else new.groups
    ours = base.groups
    if base.most_left_out is not None:
        theirs = _with_the_rest(ours, theirs, base.most_left_out)
    seen = ((), ()) if trim else (base.seen, new.seen)
    return _sorted([*_by_label(ours, theirs), *_by_stack(ours, theirs, seen, exact)])


def folded(rows: list[DiffRow]) -> list[DiffRow]:
    """Merge rows of stacks whose user frames and operator are equal.

    Such stacks only differ in plumbing, which isn't shown. Each row has the number of merged
    stacks.
    """
    found: dict[Hashable, list[DiffRow]] = {}
    for row in rows:
        key: Hashable = row.label, row.below
        if row.frames and not row.of:
            frames = tuple(row.frames[i] for i in row.user)
            label = row.frames[_place(Label(row.label, row.frames))[0]].function
            ran = operator_below(row.frames, row.user)
            # Without C++ frames, only the library's line shows what the allocation is for.
            library = None if ran or not row.libraries else row.frames[row.libraries[0]]
            key = frames or label, row.below, ran, library
        found.setdefault(key, []).append(row)
    return _sorted([_sum(alike) for alike in found.values()])


def by_line(rows: list[DiffRow]) -> list[DiffRow]:
    """Merge rows with the same location."""
    found: dict[Hashable, list[DiffRow]] = {}
    for row in rows:
        key: Hashable = row.label, row.below
        if row.frames and not row.of:
            key = row.frames[_place(Label(row.label, row.frames, row.user))[0]], row.below
        found.setdefault(key, []).append(row)
    return _sorted([_sum(alike) for alike in found.values()])


def marked_as_guessed(rows: list[DiffRow], categories: frozenset[str]) -> list[DiffRow]:
    """Mark the rows of these categories as guessed."""
    if not categories:
        return rows
    return [replace(row, guessed=_is_of(row, categories)) for row in rows]


def _is_of(row: DiffRow, categories: frozenset[str]) -> bool:
    return any(text in categories for text in (row.label, *(label.text for label in row.of)))


def _sum(rows: list[DiffRow]) -> DiffRow:
    if len(rows) == 1:
        return rows[0]
    base, new = (sum(one) for one in zip(*((r.base_bytes, r.new_bytes) for r in rows), strict=True))
    in_base, in_new = (any(row.status != one for row in rows) for one in ("new", "gone"))
    return replace(
        max(rows, key=lambda row: row.new_bytes),
        base_bytes=base,
        new_bytes=new,
        change_bytes=new - base,
        base_count=sum(row.base_count for row in rows),
        new_count=sum(row.new_count for row in rows),
        status=_status(in_base, in_new, new - base),
        base_groups=sum(row.base_groups for row in rows),
        new_groups=sum(row.new_groups for row in rows),
    )


def _sorted(rows: list[DiffRow]) -> list[DiffRow]:
    return sorted(rows, key=lambda row: (-abs(row.change_bytes), -row.new_bytes, row.label))


def _with_the_rest(base: list[Group], new: list[Group], most: int) -> list[Group]:
    """Merge the new side's groups that the base may have left out into one.

    This has to happen before matching, which would otherwise attribute all these groups to one base
    group with the same callers.
    """
    stacks = same_functions([group.frames for group in base], [group.frames for group in new])
    labels = {group.label for group in base if not group.frames}
    kept: list[Group] = []
    left: list[Group] = []
    for group, same in zip(new, stacks, strict=True):
        known = same if group.frames else group.label in labels
        (kept if known or group.bytes > most else left).append(group)
    n_bytes, count = sum(group.bytes for group in left), sum(group.count for group in left)
    return [*kept, Group(label=REST, bytes=n_bytes, count=count, share=0.0)]


def _by_label(base: list[Group], new: list[Group]) -> list[DiffRow]:
    """Match groups without comparable code by label."""
    ours, theirs = _labelled(base), _labelled(new)
    return [
        _row(Label(label), ours.get(label, []), theirs.get(label, []))
        for label in dict.fromkeys([*theirs, *ours])
    ]


def _labelled(groups: list[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in groups:
        if not group.frames:
            found.setdefault(group.label, []).append(group)
    return found


def _by_stack(
    base: list[Group], new: list[Group], seen: tuple[Seen, Seen], exact: bool
) -> list[DiffRow]:
    ours, theirs = ([group for group in side if group.frames] for side in (base, new))
    matches = match_stacks(_stacks(ours, seen[0]), _stacks(theirs, seen[1]), exact=exact)
    return [
        _matched(one, [ours[i] for i in one.base], [theirs[i] for i in one.new]) for one in matches
    ]


def _stacks(groups: list[Group], seen: Seen) -> Stacks:
    return Stacks(
        [_code(group) for group in groups],
        n_bytes=[group.bytes for group in groups],
        kinds=[_kind(group) for group in groups],
        users=[_indices(group, lambda one: one.user) for group in groups],
        places=[_indices(group, _place) for group in groups],
        seen=seen,
    )


def _code(group: Group) -> tuple[Frame, ...]:
    """Return the frames of all labels of a group, which has one label per key."""
    return tuple(frame for label in _ways(group) for frame in label.frames)


def _ways(group: Group) -> tuple[Label, ...]:
    return group.of or (Label(group.label, group.frames, group.user, group.libraries),)


def _indices(group: Group, of: Callable[[Label], tuple[int, ...]]) -> tuple[int, ...]:
    """Return the indices that `of` returns for each label, shifted to index the frames of all
    labels.
    """
    found: list[int] = []
    start = 0
    for label in _ways(group):
        found += (start + i for i in of(label))
        start += len(label.frames)
    return tuple(found)


def _place(label: Label) -> tuple[int, ...]:
    """Return the index of the frame that a stack is attributed to."""
    return (shown_frame(label.frames, label.user),) if label.frames else ()


def _kind(group: Group) -> str:
    """Return the texts of the labels without frames."""
    return ", ".join(label.text for label in group.of if not label.frames)


def _matched(match: Match, base: list[Group], new: list[Group]) -> DiffRow:
    first = (new or base)[0]
    if _code(first) == match.frames:
        whole = Label(first.label, first.frames, first.user, first.libraries)
        return _row(whole, base, new, first.of)
    name = name_of_stack(match.frames, match.user)
    label = ", ".join(filter(None, (_kind(first), name.words)))
    others = {label.frames[i] for label in _ways(first) for i in label.libraries}
    libraries = tuple(
        i for i, frame in enumerate(match.frames) if frame in others and i not in match.user
    )
    shared = Label(label, match.frames, match.user, libraries)
    return _row(shared, base, new, below=match.below)


def _row(
    code: Label,
    base: list[Group],
    new: list[Group],
    of: tuple[Label, ...] = (),
    *,
    below: bool = False,
) -> DiffRow:
    base_bytes, new_bytes = (sum(group.bytes for group in side) for side in (base, new))
    base_count, new_count = (sum(group.count for group in side) for side in (base, new))
    return DiffRow(
        label=code.text,
        frames=code.frames,
        user=code.user,
        libraries=code.libraries,
        base_bytes=base_bytes,
        new_bytes=new_bytes,
        change_bytes=new_bytes - base_bytes,
        base_count=base_count,
        new_count=new_count,
        status=_status(bool(base), bool(new), new_bytes - base_bytes),
        of=of,
        base_groups=len(base),
        new_groups=len(new),
        below=below,
    )


def _status(in_base: bool, in_new: bool, change: int) -> Status:
    if in_base and in_new:
        return "grew" if change > 0 else "shrank" if change < 0 else "same"
    return "new" if in_new else "gone"
