"""The two sides of a comparison: a snapshot, or a baseline that was made of one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import UNSET

from memreplay.analysis.categories.rules import DEFAULT_RULES, MERGED, merged_rules
from memreplay.analysis.code.naming import name_of_stack
from memreplay.analysis.code.native import frames_among, frames_of, frames_of_both
from memreplay.analysis.code.plumbing import is_native, shown_frame
from memreplay.analysis.comparing.baseline_record import BaselinePeak
from memreplay.analysis.comparing.records import Phase, Side
from memreplay.analysis.groups.ways.base import NO_STACK
from memreplay.analysis.selecting.category import of_categories
from memreplay.analysis.selecting.choice import filtering_of
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.trust.trust import graded, verdict
from memreplay.errors import UsageError
from memreplay.snapshot.model import (
    By,
    Coded,
    EventRange,
    Frame,
    Group,
    MeasureName,
    Verdict,
    When,
)
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from memreplay.analysis.code.native import FramesKept
    from memreplay.analysis.comparing.baseline_record import Baseline, BaselineDevice, BaselineGroup
    from memreplay.analysis.comparing.phases import PhaseTimes
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.model import Span
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

PEAK = When("peak", 1)
MOST_SEEN = 100_000  # frames of the user's code that are compared
PHASE_WORDS = {
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "optimizer step",
}
REST = "(smaller groups of the baseline)"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is compared: a measure at a moment, of everything or of a part of it.

    `phase` is the highest moment within that phase of any step, and `annotation` that within any of
    the annotations of that name, or with this before their #, whatever `when` says.
    """

    measure: MeasureName
    when: When = PEAK
    category: str | None = None
    annotation: str | None = None
    phase: Phase | None = None
    pool: tuple[int, int] | None = None
    stream: int | None = None


def missing_words(scope: Scope) -> str:
    """What a device lacks of which there is no level."""
    if scope.phase is not None:
        return PHASE_WORDS[scope.phase]
    return f"annotation {scope.annotation!r}"


class Level(NamedTuple):
    """The bytes of a scope, and the event after which they are so."""

    bytes: int
    event_index: int


class Sided(NamedTuple):
    """A scope on one side: its totals and its groups.

    Groups that a baseline left out are one of the label REST, and hold at most `most_left_out`
    bytes each; None where there are none. `seen` is the user's code that was recorded, whether it
    holds anything then or not.
    """

    side: Side
    groups: list[Group]
    most_left_out: int | None = None
    seen: tuple[Frame, ...] = ()


class ComparedSide(Protocol):
    """A snapshot or a baseline. Each question raises UsageError for what it does not have."""

    @property
    def file(self) -> str: ...
    @property
    def devices(self) -> tuple[int, ...]: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def range(self) -> EventRange | None:
        """Which events are read; None where a baseline does not say."""
        ...

    @property
    def frames(self) -> FramesKept | None:
        """Which frames its stacks have; None if it has no allocations."""
        ...

    def keep(self, frames: FramesKept) -> None:
        """Go by these frames alone from now on."""
        ...

    @property
    def trimmed(self) -> bool:
        """Whether its stacks are cut down to the user's frames; the other side's should be, too."""
        ...

    def level(self, device: int, scope: Scope) -> Level | None:
        """How high it went; None where there is no such annotation."""
        ...

    def categories(self, device: int, scope: Scope) -> dict[str, int] | None:
        """What each category holds when the scope is highest; None if that isn't known."""
        ...

    def guessed(self, device: int, scope: Scope, event: int) -> frozenset[str]:
        """The categories of which something is only likely, where categories are compared."""
        ...

    def phase_at(self, device: int, event: int) -> Phase | None:
        """The phase of a step that an event is in; None outside of them, or if unknown."""
        ...

    def verdict(self, device: int, measure: MeasureName) -> Verdict:
        """Whether a measure can be trusted."""
        ...

    def at(self, device: int, scope: Scope) -> Sided:
        """A device there: its totals, and all its groups."""
        ...


ALL = Selection()


class SnapshotSide:
    """A snapshot, grouped one way; strings and frames are classified when first needed."""

    trimmed = False

    def __init__(self, snap: Snapshot, selection: Selection = ALL) -> None:
        self.snap = snap
        self.by: By = selection.by or "stack"
        self.guess = False  # what memreplay's recorder noted does not count
        self.kept: FramesKept = "all"  # the frames that count
        self.rules = merged_rules(DEFAULT_RULES if selection.rules is None else selection.rules)
        self.filtering = filtering_of(snap, selection.filters, checked=False)
        self.strict = selection.strict
        self._groupers: dict[By, Grouper] = {}
        self._usages: dict[tuple[int, Scope], Usage] = {}
        self._seen: tuple[Frame, ...] | None = None
        self._levels: dict[tuple[int, Scope], Level | None] = {}
        self._phases: dict[int, PhaseTimes] = {}

    @property
    def file(self) -> str:
        return self.snap.file

    @property
    def devices(self) -> tuple[int, ...]:
        return self.snap.devices

    @property
    def truncated(self) -> bool:
        return self.snap.truncation is not None

    @property
    def range(self) -> EventRange:
        return self.snap.range

    @property
    def frames(self) -> FramesKept | None:
        return frames_of(self.snap)

    def keep(self, frames: FramesKept) -> None:
        """Go by these frames alone from now on."""
        if frames != self.kept:
            self.kept = frames
            self._groupers.clear()
            self._usages.clear()
            self._levels.clear()
            self._phases.clear()

    def grouper(self, by: By | None = None) -> Grouper:
        """What groups the live sets, made once."""
        by = self.by if by is None else by
        if by not in self._groupers:
            from memreplay.analysis.groups.grouping import (
                Grouper,  # late: a peak alone needs no groups
            )

            self._groupers[by] = Grouper(
                self.snap, by, self.rules, guess=self.guess, kept=self.kept
            )
        return self._groupers[by]

    def spans(self, device: int) -> tuple[Span, ...]:
        """The annotations of a device."""
        from memreplay.analysis.annotations.spans import spans

        return spans(self.snap, self.snap.replay(device))

    def phases(self, device: int) -> PhaseTimes:
        """Which events of a device are in which phase of a step."""
        if device not in self._phases:
            from memreplay.analysis.comparing.phases import PhaseTimes

            usage = self.snap.replay(device).measure()
            self._phases[device] = PhaseTimes(self.grouper("phase"), usage)
        return self._phases[device]

    def phase_at(self, device: int, event: int) -> Phase | None:
        """The phase that an event is in."""
        return self.phases(device).at(event)

    def usage(self, device: int, scope: Scope) -> Usage:
        """The measure of what is in the scope. Raises UsageError for an unknown category."""
        key = device, scope
        if key not in self._usages:
            replay = self.snap.replay(device)
            usage = replay.measure(scope.measure, pool=scope.pool, stream=scope.stream)
            if self.filtering is not None:
                usage = self.filtering.filtered(usage)
            if scope.category is not None:
                wanted = MERGED.get(scope.category, scope.category)
                usage = of_categories(self.grouper("category"), usage, (wanted,))
            self._usages[key] = usage
        return self._usages[key]

    def categories(self, device: int, scope: Scope) -> dict[str, int] | None:
        """What each category holds when the scope is highest; None of a category, or segments."""
        level = self.level(device, scope)
        if level is None or scope.category is not None or scope.measure == "reserved":
            return None
        usage = self.usage(device, scope)
        found = self.grouper("category").groups(usage, level.event_index, 0)[0]
        return {group.label: group.bytes for group in found}

    def guessed(self, device: int, scope: Scope, event: int) -> frozenset[str]:
        """The categories of which something is only likely, of what is in the scope then."""
        by_category = scope.category is not None or "category" in self.by
        usage = self.usage(device, scope)
        if not by_category or usage.measure == "reserved":
            return frozenset()
        return self.grouper("category").dimensions.category.guessed(usage, event)

    def let_go(self, device: int, scope: Scope) -> None:
        """Forget what is in a category, but not how high it went: some 30 bytes an event."""
        if scope.category is not None:
            self._usages.pop((device, scope), None)

    def level(self, device: int, scope: Scope) -> Level | None:
        """How high it went; None where there is no such annotation."""
        key = device, scope
        if key not in self._levels:
            self._levels[key] = self._level(device, scope)
        return self._levels[key]

    def _level(self, device: int, scope: Scope) -> Level | None:
        usage = self.usage(device, scope)
        if scope.phase is not None:
            point = self.phases(device).highest(usage).get(scope.phase)
            return None if point is None else Level(point.bytes, point.event_index)
        if scope.annotation is None and scope.when == PEAK:
            return Level(usage.peak.bytes, usage.peak.event_index)
        from memreplay.analysis.moments.moments import highest_within, resolve

        if scope.annotation is not None:
            found = highest_within(usage, self.spans(device), scope.annotation)
            return None if found is None else Level(found.bytes, found.event_index)
        event = resolve(self.snap, usage, scope.when)
        return Level(usage.bytes_at(event), event)

    def verdict(self, device: int, measure: MeasureName) -> Verdict:
        """Whether a measure of a device can be trusted."""
        usage = self.snap.replay(device).measure(measure)
        return verdict(self.snap, usage, strict=self.strict)

    def at(self, device: int, scope: Scope) -> Sided:
        """A device there: its totals, and all its groups."""
        usage = self.usage(device, scope)
        level = self.level(device, scope)
        if level is None:
            raise UsageError(f"device {device} has no {missing_words(scope)}")
        # Of what is filtered, so that what cannot be checked of a part is no doubt of it.
        trust = verdict(self.snap, usage, strict=self.strict)
        groups, _, count, _ = self.grouper().holders(usage, level.event_index, 0)
        side = Side(
            bytes=level.bytes,
            count=count,
            event_index=level.event_index,
            time_us=usage.replay.time_us(level.event_index),
            backend=usage.replay.backend.name,
            **inlined(Side, trust),
        )
        return Sided(side, list(groups), seen=self._seen_code())

    def _seen_code(self) -> tuple[Frame, ...]:
        """The user's code in all stacks of the recording."""
        if self._seen is None:
            code, rank = self.snap.code, self.grouper().file_rank
            ids = (i for i in range(code.frames) if not rank[code.frame(i)[1]])
            self._seen = tuple(map(self.snap.frame, islice(ids, MOST_SEEN)))
        return self._seen


class BaselineSide:
    """What a baseline file has of a snapshot: peaks, and groups by stack."""

    trimmed = True
    truncated = False

    def __init__(self, baseline: Baseline, file: str) -> None:
        self.baseline = baseline
        self.file = file
        self.kept: FramesKept = "all"
        self._devices = {device.device: device for device in baseline.devices}

    @property
    def devices(self) -> tuple[int, ...]:
        return tuple(self._devices)

    @property
    def range(self) -> EventRange | None:
        return self.baseline.range or None

    @property
    def frames(self) -> FramesKept | None:
        """As it says. In an older file frames of C++ that are left show that there were some, and
        without any it's the allocations without a stack that show that there were none."""
        if self.baseline.stacks is not UNSET:
            return self.baseline.stacks
        rows = (Frame(*row) for row in self.baseline.frames)
        found = frames_among(rows)
        groups = (g for device in self.baseline.devices for p in device.peaks for g in p.groups)
        return found if found == "all" or any(g.label == NO_STACK for g in groups) else None

    def keep(self, frames: FramesKept) -> None:
        """Go by these frames alone from now on."""
        self.kept = frames

    def level(self, device: int, scope: Scope) -> Level | None:
        """How high it went; None where the baseline has nothing of the annotation."""
        peak = self._peak(device, scope)
        return None if peak is None else Level(peak.bytes, peak.event_index)

    def categories(self, device: int, scope: Scope) -> dict[str, int] | None:
        """What each category holds at a peak; None if the baseline doesn't say."""
        peak = self._peak(device, scope)
        return None if peak is None else peak.categories or None

    def phase_at(self, device: int, event: int) -> Phase | None:
        """The phase of the peak that is at an event; None if the baseline doesn't say."""
        return next(
            (
                one.phase
                for one in self._device(device).peaks
                if one.phase is not None and one.event_index == event
            ),
            None,
        )

    def guessed(self, device: int, scope: Scope, event: int) -> frozenset[str]:  # noqa: ARG002
        """None: a baseline doesn't say."""
        return frozenset()

    def verdict(self, device: int, measure: MeasureName) -> Verdict:
        """As it was when the baseline was made."""
        return graded(self._device(device).reasons.get(measure, ()))

    def at(self, device: int, scope: Scope) -> Sided:
        """A device at its peak: its totals, and its groups."""
        if scope.measure != self.baseline.measure:
            raise UsageError(
                f"{self.file} is a baseline of {self.baseline.measure} bytes: it has no groups of"
                f" {scope.measure} bytes"
            )
        peak = self._peak(device, scope)
        if peak is None:
            raise UsageError(f"{self.file} has no {missing_words(scope)}")
        trust = self.verdict(device, scope.measure)
        side = Side(
            bytes=peak.bytes,
            count=peak.count,
            event_index=peak.event_index,
            time_us=None,
            **inlined(Side, trust),
        )
        groups = [self._group(group) for group in peak.groups]
        if len(groups) >= peak.groups_total:
            return Sided(side, groups)
        groups.append(Group(label=REST, bytes=peak.rest_bytes, count=peak.rest_count, share=0.0))
        return Sided(side, groups, min((group.bytes for group in peak.groups), default=peak.bytes))

    def _group(self, found: BaselineGroup) -> Group:
        rows = self.baseline.frames
        frames = tuple(Frame(*rows[place]) for place in found.frames)
        if self.kept == "none":
            frames = ()
        elif self.kept == "python":
            frames = tuple(one for one in frames if not is_native(one.function, one.file))
        return Group(
            label=found.label if frames or not found.frames else NO_STACK,
            bytes=found.bytes,
            count=found.count,
            share=0.0,
            frames=frames,
            user=tuple(range(len(frames))) if found.is_user else (),
        )

    def _device(self, device: int) -> BaselineDevice:
        if device not in self._devices:
            raise UsageError(f"{self.file} has no device {device}")
        return self._devices[device]

    def _peak(self, device: int, scope: Scope) -> BaselinePeak | None:
        if scope.when != PEAK or scope.pool is not None or scope.stream is not None:
            raise UsageError(f"{self.file} is a baseline: it only has the peak of all memory")
        category = None if scope.category is None else MERGED.get(scope.category, scope.category)
        wanted = scope.measure, category, scope.annotation, scope.phase
        peaks = self._device(device).peaks
        for peak in peaks:
            if (peak.measure, peak.category, peak.annotation, peak.phase) == wanted:
                return peak
        if scope.annotation is not None or scope.phase is not None:
            return None
        if scope.measure == self.baseline.measure and category in self.baseline.categories:
            return BaselinePeak(
                measure=scope.measure,
                category=category,
                annotation=None,
                phase=None,
                bytes=0,
                count=0,
                event_index=-1,
                groups_total=0,
                rest_bytes=0,
                rest_count=0,
                groups=(),
            )
        of = "" if scope.category is None else f" of the category {scope.category!r}"
        raise UsageError(
            f"{self.file} has no {scope.measure} bytes{of}: write it again with the same"
            " configuration (memreplay gate --save-base)"
        )


def keep_common_frames(base: ComparedSide, new: ComparedSide) -> tuple[FramesKept, str]:
    """Have both sides go by the frames that both have. (These, the file that has fewer than the
    other, if one has).

    A recording with frames of C++ and one of Python's alone would have nothing else in common.
    """
    there = base.frames, new.frames
    kept = frames_of_both(*there)
    for side, its in zip((base, new), there, strict=True):
        side.keep("all" if its in (None, kept) else kept)
    if None in there or there[0] == there[1]:
        return kept, ""
    return kept, (base if there[0] == kept else new).file


def other_ranges(base: ComparedSide, new: ComparedSide) -> tuple[EventRange, EventRange] | None:
    """The ranges of events of both sides if they differ; None if not, or if one is unknown."""
    if base.range is None or new.range is None or not base.range.differs(new.range):
        return None
    return base.range, new.range


def placed(group: Coded) -> Frame | None:
    """The frame that a group's stack is put down to; None where it has none."""
    return group.frames[shown_frame(group.frames, group.user)] if group.frames else None


def trimmed(groups: Iterable[Group]) -> list[Group]:
    """The groups with nothing but the user's frames (without any, the one that the stack is put
    down to), those that are then the same added up; the largest first."""
    found: dict[tuple[str, tuple[Frame, ...]], Group] = {}
    for group in groups:
        frames = tuple(group.frames[i] for i in group.user)
        user = tuple(range(len(frames)))
        label = group.label
        if not frames and (at := placed(group)) is not None:
            frames = (at,)
        if not group.of and len(frames) < len(group.frames):
            # Not with the operator: its frames are left out.
            label = name_of_stack(frames, user).words
        key = label, frames
        before = found.get(key)
        n_bytes, count = group.bytes, group.count
        if before is not None:
            n_bytes, count = n_bytes + before.bytes, count + before.count
        found[key] = Group(
            label=label, bytes=n_bytes, count=count, share=0.0, frames=frames, user=user
        )
    return sorted(
        found.values(),
        key=lambda one: (-one.bytes, one.label, [(f.file, f.line, f.function) for f in one.frames]),
    )
