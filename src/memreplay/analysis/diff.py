"""What changed between two snapshots: by group, at the peak of each or at another moment."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from memreplay.analysis.choice import device_pairs, filtering_of, fitting_by
from memreplay.analysis.grouping import Grouper
from memreplay.analysis.matching import Match, match_stacks
from memreplay.analysis.moments import resolve
from memreplay.analysis.plumbing import USER, file_rank
from memreplay.analysis.trust import strict_verdict, verdict
from memreplay.errors import UsageError
from memreplay.model import By, Filters, Frame, Group, Label, MeasureName, When
from memreplay.results.diff import DeviceDiff, DiffReport, DiffRow, Side, Status

if TYPE_CHECKING:
    from memreplay.analysis.categories import Rule
    from memreplay.snapshot import Snapshot

PEAK = When("peak", 1)


def diff_report(
    base: Snapshot,
    new: Snapshot,
    *,
    measure: MeasureName = "requested",
    by: By | None = None,
    when: When = PEAK,
    top: int = 20,
    exact: bool = False,
    unchanged: bool = False,
    all_frames: bool = False,
    pool: tuple[int, int] | None = None,
    stream: int | None = None,
    strict: bool = False,
    filters: Filters | None = None,
    rules: tuple[Rule, ...] | None = None,
) -> DiffReport:
    """The change of each device that both have, at a moment of each; where they have none in common
    but one each, of these two.

    `exact` matches nothing but equal stacks, line for line; `unchanged` keeps rows that did not
    change. `top` cuts the rows (0: none). Raises UsageError where the two have no device in common,
    or one of them does not have the moment.
    """
    by = fitting_by(measure, by)
    both = device_pairs(base.devices, new.devices)
    if not both and (base.devices or new.devices):
        raise UsageError(
            f"the two have no device in common: {_listed(base)} in {base.file}, {_listed(new)} in"
            f" {new.file}"
        )
    sides = [_Sided(snap, measure, by, when, strict, filters, rules) for snap in (base, new)]
    return DiffReport(
        base_file=base.file,
        new_file=new.file,
        measure=measure,
        by=by,
        when=when,
        exact=exact,
        all_frames=all_frames,
        devices=tuple(
            _device(pair, measure, base_at, new_at, exact, unchanged, top)
            for pair in both
            for base_at, new_at in [
                [side.at(device, pool, stream) for side, device in zip(sides, pair, strict=True)]
            ]
        ),
        only_base=tuple(device for device in base.devices if device not in dict(both)),
        only_new=tuple(device for device in new.devices if device not in dict(both).values()),
        truncated=base.truncation is not None or new.truncation is not None,
        filters=filters,
    )


def _listed(snap: Snapshot) -> str:
    return "device " + ", ".join(map(str, snap.devices)) if snap.devices else "none"


class _Sided:
    """One of the two snapshots."""

    def __init__(
        self,
        snap: Snapshot,
        measure: MeasureName,
        by: By,
        when: When,
        strict: bool,
        filters: Filters | None,
        rules: tuple[Rule, ...] | None,
    ) -> None:
        self.snap = snap
        self.measure = measure
        self.when = when
        self.strict = strict
        self.grouper = Grouper(snap, by, rules)
        self.filtering = filtering_of(snap, filters)

    def at(
        self, device: int, pool: tuple[int, int] | None, stream: int | None
    ) -> tuple[Side, list[Group]]:
        """A device there: its totals, and all its groups."""
        usage = self.snap.replay(device).measure(self.measure, pool=pool, stream=stream)
        if self.filtering is not None:
            usage = self.filtering.filtered(usage)
        event = resolve(self.snap, usage, self.when)
        trust = (strict_verdict if self.strict else verdict)(self.snap, usage)
        groups, _, count, _ = self.grouper.holders(usage, event, 0)
        return Side(
            file=self.snap.file,
            bytes=usage.bytes_at(event),
            count=count,
            event_index=event,
            time_us=usage.replay.time_us(event),
            exactness="exact" if trust.exact else "estimated",
            trusted=trust.trusted,
            reasons=trust.reasons,
        ), list(groups)


def _device(
    pair: tuple[int, int],
    measure: MeasureName,
    base: tuple[Side, list[Group]],
    new: tuple[Side, list[Group]],
    exact: bool,
    unchanged: bool,
    top: int,
) -> DeviceDiff:
    rows = [
        *_by_label(base[1], new[1]),
        *_by_stack([g for g in base[1] if g.frames], [g for g in new[1] if g.frames], exact),
    ]
    rows.sort(key=lambda row: (-abs(row.change_bytes), -row.new_bytes, row.label))
    statuses: Counter[Status] = Counter(row.status for row in rows)
    kept = [row for row in rows if unchanged or row.status != "same"]
    shown = kept[:top] if top else kept
    change = new[0].bytes - base[0].bytes
    return DeviceDiff(
        device=pair[1],
        base_device=pair[0],
        measure=measure,
        base=base[0],
        new=new[0],
        rows=tuple(shown),
        rows_total=len(kept),
        rest_change_bytes=change - sum(row.change_bytes for row in shown),
        statuses=dict(statuses),
    )


def _by_label(base: list[Group], new: list[Group]) -> list[DiffRow]:
    """Groups that have no stack, file or function to compare: those of one label are one."""
    ours = {group.label: group for group in base if not group.frames}
    theirs = {group.label: group for group in new if not group.frames}
    return [
        _row(label, (), (), [ours[label]] if label in ours else [], theirs_of)
        for label in dict.fromkeys([*theirs, *ours])
        for theirs_of in [[theirs[label]] if label in theirs else []]
    ]


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
    user = tuple(i for i, frame in enumerate(match.frames) if file_rank(frame.file) == USER)
    at = match.frames[user[0] if user else 0]
    label = f"{at.function} {at.file}:{at.line}" if at.line else f"{at.function} {at.file}"
    label = ", ".join(filter(None, (_kind(first), label)))
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
