"""Boils a snapshot down to the baseline that a gate and a diff hold later ones against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from memreplay.analysis.comparing.baseline_record import (
    Baseline,
    BaselineDevice,
    BaselineGroup,
    BaselinePeak,
)
from memreplay.analysis.comparing.records import PHASES
from memreplay.analysis.comparing.sides import REST, Scope, Sided, SnapshotSide, trimmed
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import Selection
from memreplay.errors import UsageError
from memreplay.snapshot.model import MEASURES, Frame, Group, MeasureName

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.snapshot.snapshot import Snapshot

TOP = 50  # groups that are kept of a device's peak
TOP_OF_A_PART = 10  # and of a category's, or an annotation's
MOST_ANNOTATIONS = 32


Frames = dict[Frame, int]  # each with its place in the baseline

# What a baseline is of, unless it is said.
DEFAULT = Selection(measure="held", top=TOP)


@takes(selection=DEFAULT)
def baseline_of(
    snap: Snapshot, selection: Selection, *, budgets: Iterable[Budget] = ()
) -> Baseline:
    """The peaks of every device: of all measures, and of `measure` with its groups, also by
    category, by annotation, and of what `budgets` speak of.

    `top` groups are kept of a peak (0: all). Raises UsageError for reserved memory, for a category
    that no rule has, and for a snapshot of nothing.
    """
    if selection.measure == "reserved":
        raise UsageError(
            "reserved memory has no stacks: choose another measure for a baseline's groups"
        )
    if not snap.devices:
        raise UsageError("it has neither events nor segments: nothing was recorded")
    side = SnapshotSide(snap, Selection(rules=selection.rules, strict=selection.strict))
    asked = tuple(budgets)
    frames: Frames = {}
    devices = tuple(
        BaselineDevice(
            device=device,
            reasons={name: side.verdict(device, name).reasons for name in MEASURES},
            peaks=tuple(_peaks(side, device, selection.measure, asked, selection.top, frames)),
        )
        for device in chosen_devices(snap, selection)
    )
    return Baseline(
        file=snap.file.replace("\\", "/").rstrip("/").rpartition("/")[2],
        measure=selection.measure,
        rules=fingerprint(side.rules),
        categories=_categories(side),
        range=snap.range,
        stacks=side.frames,
        frames=tuple((frame.function, frame.file, frame.line) for frame in frames),
        devices=devices,
    )


def fingerprint(rules: tuple[Rule, ...]) -> str:
    """The same text for the same rules of categories."""
    import hashlib  # late: a gate mostly does without it

    spelled = "\n".join(repr(rule) for rule in rules)
    return hashlib.sha256(spelled.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _peaks(
    side: SnapshotSide,
    device: int,
    measure: MeasureName,
    budgets: tuple[Budget, ...],
    top: int,
    frames: Frames,
) -> Iterator[BaselinePeak]:
    whole = [Scope(name) for name in dict.fromkeys((measure, *MEASURES))]
    parts = [Scope(measure, category=name) for name in _categories(side)]
    parts += [Scope(measure, phase=phase) for phase in PHASES]
    parts += [Scope(measure, annotation=name) for name in _annotations(side, device, measure)]
    for budget in budgets:
        if budget.device in (None, device):
            for phase in budget.phases:
                whole_of = Scope(budget.measure, annotation=budget.annotation, phase=phase)
                parts.append(replace(whole_of, category=budget.category))
                if budget.max_reserved is not None:
                    parts.append(replace(whole_of, measure="reserved"))
    for scope in dict.fromkeys([*whole, *parts]):
        most = top if scope in whole else TOP_OF_A_PART
        found = _peak(side, device, scope, most, frames if scope.measure == measure else None)
        if found is not None:
            yield found
        side.let_go(device, scope)


def _categories(side: SnapshotSide) -> tuple[str, ...]:
    """Those of the rules, or those that the recorder noted: each is a measure of its own, so no
    more than there may be rules, however many a file names."""
    from memreplay.analysis.categories.rules import MAX_RULES, UNKNOWN

    return (*side.grouper("category").dimensions.category.names[:MAX_RULES], UNKNOWN)


def _annotations(side: SnapshotSide, device: int, measure: MeasureName) -> list[str]:
    """The names before a #, of as many annotations as reach highest."""
    names = dict.fromkeys(span.name.partition("#")[0] for span in side.spans(device))
    names.pop("", None)
    if len(names) <= MOST_ANNOTATIONS:
        return list(names)
    from memreplay.analysis.moments.highest import Highest

    usage = side.usage(device, Scope(measure))
    top = Highest(usage)
    highest: dict[str, int] = {}
    for span in side.spans(device):
        name = span.name.partition("#")[0]
        last = usage.replay.start + usage.replay.events
        end = last if span.end_event is None else span.end_event
        highest[name] = max(top.within(span.start_event, end)[0], highest.get(name, 0))
    return sorted(names, key=lambda name: (-highest[name], name))[:MOST_ANNOTATIONS]


def as_kept(found: Sided, scope: Scope) -> Sided:
    """What a baseline keeps of it, as it is read again: both forms of a base blame the same."""
    part = not (scope.category is scope.annotation is scope.phase is None)
    groups = trimmed(found.groups)
    kept = groups[: TOP_OF_A_PART if part else TOP]
    left = groups[len(kept) :]
    if not left:
        return Sided(found.side, groups)
    n_bytes, count = sum(group.bytes for group in left), sum(group.count for group in left)
    return Sided(
        found.side,
        [*kept, Group(label=REST, bytes=n_bytes, count=count, share=0.0)],
        min(group.bytes for group in kept),
    )


def _peak(
    side: SnapshotSide, device: int, scope: Scope, top: int, frames: Frames | None
) -> BaselinePeak | None:
    """One peak, with its groups where there are `frames` to add theirs to."""
    level = side.level(device, scope)
    if level is None:
        return None
    alone = scope.category is not None and scope.annotation is scope.phase is None
    if frames is not None and alone and not level.bytes:
        return None  # as all categories that are not there
    found = None if frames is None else side.at(device, scope)
    groups = [] if found is None else trimmed(found.groups)
    kept = groups[:top] if top else groups
    left = groups[len(kept) :]
    return BaselinePeak(
        measure=scope.measure,
        category=scope.category,
        annotation=scope.annotation,
        phase=scope.phase,
        categories={} if found is None else side.categories(device, scope) or {},
        bytes=level.bytes,
        count=0 if found is None else found.side.count,
        event_index=level.event_index,
        groups_total=len(groups),
        rest_bytes=sum(group.bytes for group in left),
        rest_count=sum(group.count for group in left),
        groups=() if frames is None else tuple(_kept(group, frames) for group in kept),
    )


def _kept(group: Group, frames: Frames) -> BaselineGroup:
    return BaselineGroup(
        bytes=group.bytes,
        count=group.count,
        label=group.label,
        is_user=bool(group.user),
        frames=tuple(frames.setdefault(frame, len(frames)) for frame in group.frames),
    )
