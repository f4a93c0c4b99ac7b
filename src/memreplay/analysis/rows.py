"""The groups of two sides as rows: those that are the same code in one, with what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.matching import Match, match_stacks, same_functions
from memreplay.analysis.plumbing import LIBRARY, file_rank
from memreplay.analysis.sides import REST, Sided, frame_words, trimmed
from memreplay.model import Group
from memreplay.results.diff import DiffRow, Status

if TYPE_CHECKING:
    from memreplay.model import Frame, Label


def compared(base: Sided, new: Sided, *, exact: bool = False, trim: bool = False) -> list[DiffRow]:
    """Every group of both sides in one row, the largest change first; they add up to the change.

    `exact` matches nothing but equal stacks. `trim` cuts the stacks of the new side down as those
    of a baseline are. What a baseline left out is one row, with the new side's groups that are no
    larger and that it has not: they may well be among these.
    """
    theirs = trimmed(new.groups) if trim else new.groups
    ours = base.groups
    if base.most_left_out is not None:
        theirs = _with_the_rest(ours, theirs, base.most_left_out)
    rows = [
        *_by_label(ours, theirs),
        *_by_stack([g for g in ours if g.frames], [g for g in theirs if g.frames], exact),
    ]
    rows.sort(key=lambda row: (-abs(row.change_bytes), -row.new_bytes, row.label))
    return rows


def _with_the_rest(base: list[Group], new: list[Group], most: int) -> list[Group]:
    """The new side's groups with those in one that the base may have left out.

    Before they are matched: by their callers alone they would all be put down to one of these.
    """
    stacks = same_functions([group.frames for group in base], [group.frames for group in new])
    labels = {group.label for group in base if not group.frames}
    kept: list[Group] = []
    left: list[Group] = []
    for group, same in zip(new, stacks, strict=True):
        known = same if group.frames else group.label in labels
        (kept if known or group.bytes > most else left).append(group)
    n_bytes, count = sum(group.bytes for group in left), sum(group.count for group in left)
    return [*kept, Group(REST, n_bytes, count, 0.0)]


def _by_label(base: list[Group], new: list[Group]) -> list[DiffRow]:
    """Groups that have no stack, file or function to compare: those of one label are one."""
    ours, theirs = _labelled(base), _labelled(new)
    return [
        _row(label, (), (), ours.get(label, []), theirs.get(label, []))
        for label in dict.fromkeys([*theirs, *ours])
    ]


def _labelled(groups: list[Group]) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in groups:
        if not group.frames:
            found.setdefault(group.label, []).append(group)
    return found


def _by_stack(base: list[Group], new: list[Group], exact: bool) -> list[DiffRow]:
    matches = match_stacks(
        *([_code(group) for group in side] for side in (base, new)),
        exact=exact,
        n_bytes=([group.bytes for group in base], [group.bytes for group in new]),
        kinds=([_kind(group) for group in base], [_kind(group) for group in new]),
    )
    return [
        _matched(one, [base[i] for i in one.base], [new[i] for i in one.new]) for one in matches
    ]


def _code(group: Group) -> tuple[Frame, ...]:
    """The frames of all the ways."""
    return tuple(frame for label in group.of or (group,) for frame in label.frames)


def _kind(group: Group) -> str:
    """What those of the ways call it that have no frames."""
    return ", ".join(label.text for label in group.of if not label.frames)


def _matched(match: Match, base: list[Group], new: list[Group]) -> DiffRow:
    first = (new or base)[0]
    if _code(first) == match.frames:
        return _row(first.label, first.frames, first.user, base, new, first.of)
    # Callers that both have: the names of what differs below them would say too much.
    ranks = [file_rank(frame.file) for frame in match.frames]
    # Where no frame is the user's those of libraries are: the lowest rank that there is of code.
    user = tuple(i for i, rank in enumerate(ranks) if rank == min([*ranks, LIBRARY]))
    at = match.frames[user[0] if user else 0]
    label = ", ".join(filter(None, (_kind(first), frame_words(at))))
    return _row(label, match.frames, user, base, new)


def _row(
    label: str,
    frames: tuple[Frame, ...],
    user: tuple[int, ...],
    base: list[Group],
    new: list[Group],
    of: tuple[Label, ...] = (),
) -> DiffRow:
    base_bytes, new_bytes = (sum(group.bytes for group in side) for side in (base, new))
    base_count, new_count = (sum(group.count for group in side) for side in (base, new))
    return DiffRow(
        label=label,
        frames=frames,
        user=user,
        base_bytes=base_bytes,
        new_bytes=new_bytes,
        base_count=base_count,
        new_count=new_count,
        status=_status(bool(base), bool(new), new_bytes - base_bytes),
        of=of,
    )


def _status(in_base: bool, in_new: bool, change: int) -> Status:
    if in_base and in_new:
        return "grew" if change > 0 else "shrank" if change < 0 else "same"
    return "new" if in_new else "gone"
