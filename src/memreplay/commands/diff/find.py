"""What changed between two snapshots: by group, at the peak of each or at another moment."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.comparing.records import DiffRow, Status
from memreplay.analysis.comparing.rows import compared, folded
from memreplay.analysis.comparing.sides import (
    PEAK,
    BaselineSide,
    ComparedSide,
    Scope,
    SnapshotSide,
    keep_common_frames,
    other_ranges,
)
from memreplay.analysis.groups.grouping import ways_of
from memreplay.analysis.groups.kinds import NOTED, WITHOUT_FRAMES, CategoriesSource
from memreplay.analysis.selecting.choice import device_pairs, fitting_by
from memreplay.analysis.selecting.selection import Choices, Selection, selected
from memreplay.commands.diff.result import DeviceDiff, DiffReport
from memreplay.errors import UsageError
from memreplay.snapshot.model import By, When

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from memreplay.analysis.code.native import FramesKept
    from memreplay.snapshot.snapshot import Snapshot

__all__ = ["PEAK", "diff_report"]


def diff_report(
    base: Snapshot | BaselineSide,
    new: Snapshot,
    selection: Selection | None = None,
    *,
    when: When = PEAK,
    exact: bool = False,
    unchanged: bool = False,
    all_frames: bool = False,
    **choices: Unpack[Choices],
) -> DiffReport:
    """The change from `base` to `new` of each device that both have, at the moment `when` of each;
    where they have none in common but one each, of these two. The base may be a baseline, which has
    groups by stack at the peak of one measure.

    Rows that differ in plumbing alone are one, unless `all_frames` are asked for. `exact` matches
    nothing but equal stacks, line for line; `unchanged` keeps rows that did not change. `top` cuts
    the rows (0: none); `device` is the new one's. Raises UsageError where the two have no device in
    common, one of them does not have the moment, or a filter's pattern is found in neither.
    """
    asked = selected(selection, choices)
    by, filters = fitting_by(asked.measure, asked.by), asked.filters
    if asked.device is not None:
        new.check_device(asked.device)
    after = SnapshotSide(new, replace(asked, by=by))
    before: ComparedSide
    source: CategoriesSource | None = None
    mixed = False
    if isinstance(base, BaselineSide):
        if by != "stack" or filters:
            raise UsageError(
                f"{base.file} is a baseline: it only has groups by stack, and of all memory"
            )
        before = base
    else:
        before = theirs = SnapshotSide(base, replace(asked, by=by))
        if after.filtering is not None:
            after.filtering.check(before.filtering)  # code may be in one of the two alone
        source = _source(base, new, by)
        mixed = source is not None and (base.recorded is None) != (new.recorded is None)
        theirs.guess = after.guess = source == "guessed"
    both = device_pairs(before.devices, after.devices)
    if not both and (before.devices or after.devices):
        raise UsageError(
            f"the two have no device in common: {_listed(before)} in {before.file},"
            f" {_listed(after)} in {after.file}"
        )
    kept: FramesKept = "all"
    fewer = ""
    if not WITHOUT_FRAMES.issuperset(ways_of(by)) and source != "recorded":
        kept, fewer = keep_common_frames(before, after)
    scope = Scope(asked.measure, when, pool=asked.pool, stream=asked.stream)
    fold = by == "stack" and not exact and not all_frames
    ranges = other_ranges(before, after)
    return DiffReport(
        base_file=before.file,
        new_file=after.file,
        measure=asked.measure,
        by=by,
        moment=when,
        exact=exact,
        filters=filters or None,
        source=source,
        truncated=before.truncated or after.truncated,
        unknown_devices=_unknown(before, after) or UNSET,
        ranges_differ=ranges is not None,
        only_base=tuple(one for one in before.devices if one not in dict(both)),
        only_new=tuple(one for one in after.devices if one not in dict(both).values()),
        devices=tuple(
            _device(pair, scope, before, after, exact, fold, unchanged, asked.top)
            for pair in both
            if asked.device in (None, pair[1])
        ),
        ranges=ranges,
        all_frames=all_frames,
        mixed=mixed,
        frames=kept,
        fewer=fewer,
    )


def _unknown(*sides: ComparedSide) -> tuple[int, ...]:
    found = {
        device
        for side in sides
        if isinstance(side, SnapshotSide)
        for device in side.snap.unknown_devices
    }
    return tuple(sorted(found))


def _source(base: Snapshot, new: Snapshot, by: By) -> CategoriesSource | None:
    """Where the groups of both come from: what one of the two alone has is compared with
    nothing. None for groups that need no guess."""
    if not NOTED.intersection(ways_of(by)):
        return None
    return "guessed" if None in (base.recorded, new.recorded) else "recorded"


def _is_of(row: DiffRow, categories: frozenset[str]) -> bool:
    return any(text in categories for text in (row.label, *(label.text for label in row.of)))


def _listed(side: ComparedSide) -> str:
    return "device " + ", ".join(map(str, side.devices)) if side.devices else "none"


def _device(
    pair: tuple[int, int],
    scope: Scope,
    before: ComparedSide,
    after: ComparedSide,
    exact: bool,
    fold: bool,
    unchanged: bool,
    top: int,
) -> DeviceDiff:
    base, new = before.at(pair[0], scope), after.at(pair[1], scope)
    rows = compared(base, new, exact=exact, trim=before.trimmed)
    if fold:
        rows = folded(rows)
    guessed = before.guessed(pair[0], scope, base.side.event_index)
    guessed |= after.guessed(pair[1], scope, new.side.event_index)
    rows = [replace(row, guessed=_is_of(row, guessed)) for row in rows] if guessed else rows
    statuses: Counter[Status] = Counter(row.status for row in rows)
    kept = [row for row in rows if unchanged or row.status != "same"]
    shown = kept[:top] if top else kept
    change = new.side.bytes - base.side.bytes
    return DeviceDiff(
        device=pair[1],
        base_device=pair[0],
        measure=scope.measure,
        base_bytes=base.side.bytes,
        new_bytes=new.side.bytes,
        change_bytes=change,
        base=base.side,
        new=new.side,
        trusted=base.side.trusted and new.side.trusted,
        rows_total=len(kept),
        rest_change_bytes=change - sum(row.change_bytes for row in shown),
        statuses=dict(statuses),
        rows=tuple(shown),
    )
