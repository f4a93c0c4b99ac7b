"""Reduce a snapshot to a baseline that gates and diffs compare against."""

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
from memreplay.analysis.selecting.selection import FILTERS, Selection
from memreplay.errors import UsageError
from memreplay.snapshot.model import MEASURES, Frame, Group, MeasureName

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.snapshot.snapshot import Snapshot

TOP = 50  # groups stored for a device's peak
TOP_OF_A_PART = 10  # maximum number of groups stored for a category's or annotation's peak
MOST_ANNOTATIONS = 32


Frames = dict[Frame, int]  # maps each frame to its index in the baseline

DEFAULT = Selection(measure="held", top=TOP)


@takes(selection=DEFAULT, without=("by", "pool", "stream", "fold", *FILTERS))
def baseline_of(
    snap: Snapshot, selection: Selection, *, budgets: Iterable[Budget] = ()
) -> Baseline:
    """Return every device's peaks of all measures. For `measure`, they include groups, the peaks by
    category and annotation, and whatever `budgets` need.

    Keep `top` groups per peak (0: all). Raises UsageError for reserved memory, for an unknown
    category, and for an empty snapshot.
    """
    if selection.measure == "reserved":
        raise UsageError(
            "reserved memory has no stacks to save as groups; choose another measure for"
            " the baseline"
        )
    if not snap.devices:
        raise UsageError("the file has neither events nor segments: nothing was recorded")
    side = SnapshotSide(snap, Selection(rules=selection.rules, strict=selection.strict))
    asked = tuple(budgets)
    frames: Frames = {}
    devices = tuple(
        BaselineDevice(
            device=device,
            reasons={name: side.verdict(device, name).reasons for name in MEASURES},
            peaks=tuple(_peaks(side, device, selection, asked, frames)),
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
    """Return a string that identifies the category rules."""
    import hashlib  # imported late: most gates don't need it

    spelled = "\n".join(repr(rule) for rule in rules)
    return hashlib.sha256(spelled.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _peaks(
    side: SnapshotSide,
    device: int,
    selection: Selection,
    budgets: tuple[Budget, ...],
    frames: Frames,
) -> Iterator[BaselinePeak]:
    measure = selection.measure
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
        most = selection.top if scope in whole else TOP_OF_A_PART
        found = _peak(side, device, scope, most, frames if scope.measure == measure else None)
        if found is not None:
            yield found
        side.release(device, scope)


def _categories(side: SnapshotSide) -> tuple[str, ...]:
    """Return the categories from the rules or the recorder.

    Each category is a separate measure, so their number is limited to the maximum number of rules.
    """
    from memreplay.analysis.categories.rules import MAX_RULES, UNKNOWN

    return (*side.grouper("category").dimensions.category.names[:MAX_RULES], UNKNOWN)


def _annotations(side: SnapshotSide, device: int, measure: MeasureName) -> list[str]:
    """Return the names (up to a #) of the annotations with the highest peaks."""
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
    """Return a side's totals and groups as its baseline would store them, so that comparing with a
    snapshot gives the same result as comparing with its baseline.
    """
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
    """Return one peak. If `frames` is given, include the peak's groups and add their
    frames to it.
    """
    level = side.level(device, scope)
    if level is None:
        return None
    alone = scope.category is not None and scope.annotation is scope.phase is None
    if frames is not None and alone and not level.bytes:
        return None  # handled like a category that doesn't occur
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
