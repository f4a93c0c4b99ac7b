"""The sides of a comparison: a snapshot or a baseline."""

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
MOST_SEEN = 100_000  # maximum number of user frames to compare
PHASE_WORDS = {
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "optimizer step",
}
REST = "(smaller groups of the baseline)"


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a comparison: a measure at a moment, of all memory or a part of it.

    `phase`: the peak within that phase of any step. `annotation`: the peak within any annotation
    with that name, or with that name up to a #. Both override `when`.
    """

    measure: MeasureName
    when: When = PEAK
    category: str | None = None
    annotation: str | None = None
    phase: Phase | None = None
    pool: tuple[int, int] | None = None
    stream: int | None = None


def missing_text(scope: Scope) -> str:
    """Explain that a device has nothing in the scope."""
    if scope.phase is not None:
        return PHASE_WORDS[scope.phase]
    return f"annotation {scope.annotation!r}"


class Level(NamedTuple):
    """A scope's peak in bytes, and the event after which it's reached."""

    bytes: int
    event_index: int


class Sided(NamedTuple):
    """One side's totals and groups within a scope.

    Groups that a baseline left out are merged into one group labelled REST. Each of these groups
    had at most `most_left_out` bytes, which is None if no group was left out. `seen`: all recorded
    user code, whether it holds memory or not.
    """

    side: Side
    groups: list[Group]
    most_left_out: int | None = None
    seen: tuple[Frame, ...] = ()


class ComparedSide(Protocol):
    """A snapshot or baseline to compare. Methods raise UsageError for data that it doesn't have."""

    @property
    def file(self) -> str: ...
    @property
    def devices(self) -> tuple[int, ...]: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def range(self) -> EventRange | None:
        """The events that were read; None if a baseline doesn't say."""
        ...

    @property
    def frames(self) -> FramesKept | None:
        """Which frames its stacks have; None without allocations."""
        ...

    def keep(self, frames: FramesKept) -> None:
        """From now on, only use these kinds of frames."""
        ...

    @property
    def trimmed(self) -> bool:
        """Whether stacks have only user frames, so that the other side's must be trimmed, too."""
        ...

    def level(self, device: int, scope: Scope) -> Level | None:
        """Return the scope's peak; None if the annotation doesn't occur."""
        ...

    def categories(self, device: int, scope: Scope) -> dict[str, int] | None:
        """Return each category's bytes at the scope's peak; None if unknown."""
        ...

    def guessed(self, device: int, scope: Scope, event: int) -> frozenset[str]:
        """Return the categories that include guesses, if categories are compared."""
        ...

    def phase_at(self, device: int, event: int) -> Phase | None:
        """Return the step phase of an event; None outside or if unknown."""
        ...

    def verdict(self, device: int, measure: MeasureName) -> Verdict:
        """Return how far a measure can be trusted."""
        ...

    def at(self, device: int, scope: Scope) -> Sided:
        """Return a device's totals and all its groups."""
        ...


ALL = Selection()


class SnapshotSide:
    """A snapshot grouped by one key. Strings and frames are classified on demand."""

    trimmed = False

    def __init__(self, snap: Snapshot, selection: Selection = ALL) -> None:
        self.snap = snap
        self.by: By = selection.by or "stack"
        self.guess = False  # whether to use guessed rather than recorded categories
        self.kept: FramesKept = "all"  # which frames to compare
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
        """From now on, only use these kinds of frames."""
        if frames != self.kept:
            self.kept = frames
            self._groupers.clear()
            self._usages.clear()
            self._levels.clear()
            self._phases.clear()

    def grouper(self, by: By | None = None) -> Grouper:
        """Return the cached grouper of a key."""
        by = self.by if by is None else by
        if by not in self._groupers:
            from memreplay.analysis.groups.grouping import (  # imported late: peaks don't need it
                Evidence,
                Grouper,
            )

            self._groupers[by] = Grouper(
                self.snap, by, self.rules, evidence=Evidence(self.guess, self.kept)
            )
        return self._groupers[by]

    def spans(self, device: int) -> tuple[Span, ...]:
        """Return a device's annotations."""
        from memreplay.analysis.annotations.spans import spans

        return spans(self.snap, self.snap.replay(device))

    def phases(self, device: int) -> PhaseTimes:
        """Return the step phases of a device's events."""
        if device not in self._phases:
            from memreplay.analysis.comparing.phases import PhaseTimes

            usage = self.snap.replay(device).measure()
            self._phases[device] = PhaseTimes(self.grouper("phase"), usage)
        return self._phases[device]

    def phase_at(self, device: int, event: int) -> Phase | None:
        """Return the phase of an event."""
        return self.phases(device).at(event)

    def usage(self, device: int, scope: Scope) -> Usage:
        """Return the measure within the scope. Raises UsageError for an unknown category."""
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
        """Return each category's bytes at the scope's peak; None if the scope is a category or
        reserved memory.
        """
        level = self.level(device, scope)
        if level is None or scope.category is not None or scope.measure == "reserved":
            return None
        usage = self.usage(device, scope)
        found = self.grouper("category").groups(usage, level.event_index, 0)[0]
        return {group.label: group.bytes for group in found}

    def guessed(self, device: int, scope: Scope, event: int) -> frozenset[str]:
        """Return the categories that include guesses, within the scope at the event."""
        by_category = scope.category is not None or "category" in self.by
        usage = self.usage(device, scope)
        if not by_category or usage.measure == "reserved":
            return frozenset()
        return self.grouper("category").dimensions.category.guessed(usage, event)

    def release(self, device: int, scope: Scope) -> None:
        """Free the memory that a category's usage takes (about 30 bytes per event), but keep the
        category's peak.
        """
        if scope.category is not None:
            self._usages.pop((device, scope), None)

    def level(self, device: int, scope: Scope) -> Level | None:
        """Return the scope's peak; None if the annotation doesn't occur."""
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
        """Return how far a device's measure can be trusted."""
        usage = self.snap.replay(device).measure(measure)
        return verdict(self.snap, usage, strict=self.strict)

    def at(self, device: int, scope: Scope) -> Sided:
        """Return a device's totals and all its groups."""
        usage = self.usage(device, scope)
        level = self.level(device, scope)
        if level is None:
            raise UsageError(f"device {device} has no {missing_text(scope)}")
        # Pass the filtered usage, to avoid doubts from checks that only apply to all memory.
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
        """Return the user code that occurs in any recorded stack."""
        if self._seen is None:
            code, rank = self.snap.code, self.grouper().file_rank
            ids = (i for i in range(code.frames) if not rank[code.frame(i)[1]])
            self._seen = tuple(map(self.snap.frame, islice(ids, MOST_SEEN)))
        return self._seen


class BaselineSide:
    """A baseline as a side, with peaks and groups by stack."""

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
        """Which frames the stacks have, according to the baseline.

        For older files, which don't say, the presence of C++ frames proves that C++ frames were
        recorded. If there are none, allocations without a stack prove that they weren't.
        """
        if self.baseline.stacks is not UNSET:
            return self.baseline.stacks
        rows = (Frame(*row) for row in self.baseline.frames)
        found = frames_among(rows)
        groups = (g for device in self.baseline.devices for p in device.peaks for g in p.groups)
        return found if found == "all" or any(g.label == NO_STACK for g in groups) else None

    def keep(self, frames: FramesKept) -> None:
        """From now on, only use these kinds of frames."""
        self.kept = frames

    def level(self, device: int, scope: Scope) -> Level | None:
        """Return the scope's peak; None if the baseline lacks the annotation."""
        peak = self._peak(device, scope)
        return None if peak is None else Level(peak.bytes, peak.event_index)

    def categories(self, device: int, scope: Scope) -> dict[str, int] | None:
        """Return each category's bytes at a peak; None if unknown."""
        peak = self._peak(device, scope)
        return None if peak is None else peak.categories or None

    def phase_at(self, device: int, event: int) -> Phase | None:
        """Return the phase of the peak at an event; None if unknown."""
        return next(
            (
                one.phase
                for one in self._device(device).peaks
                if one.phase is not None and one.event_index == event
            ),
            None,
        )

    def guessed(self, device: int, scope: Scope, event: int) -> frozenset[str]:  # noqa: ARG002
        """Return an empty set, because a baseline doesn't say which categories include guesses."""
        return frozenset()

    def verdict(self, device: int, measure: MeasureName) -> Verdict:
        """Return the verdict stored when the baseline was created."""
        return graded(self._device(device).reasons.get(measure, ()))

    def at(self, device: int, scope: Scope) -> Sided:
        """Return a device's totals and groups at its peak."""
        if scope.measure != self.baseline.measure:
            raise UsageError(
                f"{self.file} is a baseline of {self.baseline.measure} bytes, without groups"
                f" of {scope.measure} bytes"
            )
        peak = self._peak(device, scope)
        if peak is None:
            raise UsageError(f"{self.file} has no {missing_text(scope)}")
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
            raise UsageError(f"{self.file} is a baseline, which only has the peak of all memory")
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
            f"{self.file} has no {scope.measure} bytes{of}; save it again with the same"
            " configuration (memreplay gate --save-base)"
        )


def keep_common_frames(base: ComparedSide, new: ComparedSide) -> tuple[FramesKept, str]:
    """Restrict both sides to the kinds of frames that both have. Return these kinds, and the file
    that has fewer (or "").

    A recording with C++ frames and one without would otherwise have nothing in common.
    """
    there = base.frames, new.frames
    kept = frames_of_both(*there)
    for side, its in zip((base, new), there, strict=True):
        side.keep("all" if its in (None, kept) else kept)
    if None in there or there[0] == there[1]:
        return kept, ""
    return kept, (base if there[0] == kept else new).file


def other_ranges(base: ComparedSide, new: ComparedSide) -> tuple[EventRange, EventRange] | None:
    """Return both sides' event ranges if they differ; None if they're equal or one is unknown."""
    if base.range is None or new.range is None or not base.range.differs(new.range):
        return None
    return base.range, new.range


def placed(group: Coded) -> Frame | None:
    """Return the frame that a group's stack is attributed to; None without a stack."""
    return group.frames[shown_frame(group.frames, group.user)] if group.frames else None


def trimmed(groups: Iterable[Group]) -> list[Group]:
    """Reduce groups to their user frames and merge equal ones. Return them largest first.

    If a stack has no user frames, keep the frame that it's attributed to.
    """
    found: dict[tuple[str, tuple[Frame, ...]], Group] = {}
    for group in groups:
        frames = tuple(group.frames[i] for i in group.user)
        user = tuple(range(len(frames)))
        label = group.label
        if not frames and (at := placed(group)) is not None:
            frames = (at,)
        if not group.of and len(frames) < len(group.frames):
            # Leave out the operator, because its frames are dropped.
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
