"""Which code holds more and more from step to step, and when memory would end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages, filtering_of
from memreplay.analysis.selecting.selection import Selection, TotalMemory
from memreplay.analysis.selecting.sizes import parse_size
from memreplay.analysis.steps.boundaries import WINDOWS, at_most, find_steps, windows
from memreplay.analysis.steps.guessing import MOST_CHURN, churn
from memreplay.analysis.steps.records import GUESSED, Found, Piece, StepOptions
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.leaks.result import DeviceLeaks, GrownGroup, LeaksReport, RunsOut
from memreplay.commands.leaks.trained import (
    GAINED,
    ODDS,
    RATE,
    STATE_AND_GRADIENTS,
    STAYED,
    WHOLE,
    late_state,
    newly_trained,
)
from memreplay.commands.steps.find import Summed, median, sum_steps
from memreplay.declared import Opt
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.selecting.filters import Filtering
    from memreplay.analysis.steps.records import StepSource
    from memreplay.commands.leaks.result import MemorySource
    from memreplay.snapshot.model import Frame, Verdict
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

    Row = tuple[Any, ...]
    Rows = Sequence[Row]
    Totals = tuple[int, ...]
    Grown = tuple[Rows, int, Rows, int, Totals, list[int]]

# Fewer steps do not tell growth from a start.
LEAST_STEPS = 5
# A leak rises so often, or more. In fewer judged steps than these one that is not in each step may
# not do so, which is worth a word.
LEAST_RISES = 4
FEW_STEPS = 20
# With very many groups steps are taken together, so that no file costs groups times steps.
MOST_CELLS = 1 << 27


class LeaksOptions(StepOptions, frozen=True):
    """What a leak is, and where steps are."""

    windows: Annotated[
        int | None,
        Opt(
            "Use N equal parts of the trace instead of steps (20 if a file has no steps).",
            "N",
            least=5,
            most=4096,
            brief="Use N equal parts of the trace as steps.",
        ),
    ] = None
    older_than: Annotated[
        int,
        Opt(
            "Count allocations that outlive N steps as old.",
            "N",
            least=0,
            brief="Count what outlives N steps as old.",
        ),
    ] = 3
    min_growth: Annotated[
        int,
        Opt(
            "Do not call it a leak if it grows by less than this a step.",
            "SIZE",
            parse=parse_size,
            shown="1B",
            brief="The least that a leak grows by a step.",
        ),
    ] = 1
    total_memory: TotalMemory = None


@takes(selection=Selection, options=LeaksOptions)
def leaks_report(snap: Snapshot, selection: Selection, options: LeaksOptions) -> LeaksReport:
    """The leaks of each device (docs/leaks.md has the rule).

    Steps are those of `annotation` (its name up to a #), or of `period` events each; where neither
    is given they are found (docs/steps.md). `windows` takes so many equal parts of the trace
    instead, and so does a file without steps; they are the same whatever the filters leave. `by` is
    what is judged: each stack, or each group of another kind. `total_memory` is the device's, in
    bytes. Allocations that are still there `older_than` steps later are counted as old; what grows
    by less than `min_growth` bytes a step is no leak. A device with less than 5 steps is not
    judged. Raises UsageError for reserved memory, and NothingToTellError where no device has steps.
    """
    by = selection.by or "stack"
    if selection.measure == "reserved":
        raise UsageError(
            "reserved memory consists of segments, which no stack holds: look for leaks by"
            " another measure"
        )
    if options.windows is not None and options.given:
        raise UsageError("windows take the place of steps: leave out the annotation and the period")
    grouper = Grouper(snap, by, selection.rules)
    filtering = filtering_of(snap, selection.filters)
    devices = [
        device_leaks(snap, whole, selection, options, grouper=grouper, filtering=filtering)
        for whole in chosen_usages(snap, replace(selection, filters=None))
    ]
    if not any(device.source for device in devices):
        why = devices[0].not_judged if devices else "the file has neither events nor segments"
        raise (UsageError if options.given else NothingToTellError)(f"cannot look for leaks: {why}")
    return LeaksReport(
        file=snap.file,
        measure=selection.measure,
        by=by,
        pool=selection.pool,
        stream=selection.stream,
        filters=selection.filters or None,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        older_than_steps=options.older_than,
        min_growth_bytes=options.min_growth,
        leaking=any(device.grows and not device.guessed for device in devices),
        judged=any(device.judged for device in devices),
        devices=tuple(devices),
    )


def device_leaks(
    snap: Snapshot,
    whole: Usage,
    selection: Selection | None = None,
    options: LeaksOptions | None = None,
    *,
    grouper: Grouper | None = None,
    filtering: Filtering | None = None,
) -> DeviceLeaks:
    """The leaks of one device; without a source where there are no steps to look at.

    `whole` says where the steps are, and what `filtering` leaves of it is looked at.
    """
    selection, options = selection or Selection(), options or LeaksOptions()
    grouper = grouper or Grouper(snap, "stack")
    usage = whole if filtering is None else filtering.filtered(whole)
    found = _steps(snap, whole, grouper, options)
    trust = verdict(snap, usage, strict=selection.strict)
    return _Search(usage, whole, found, options, selection.top, grouper).result(trust)


def _most_groups(usage: Usage, grouper: Grouper) -> int:
    """How many groups there are at most, 1 or more."""
    if grouper.by == "stack":
        return grouper.snap.code.stacks + 1
    return max(1, grouper.keys(usage).meet())


def _steps(snap: Snapshot, usage: Usage, grouper: Grouper, options: LeaksOptions) -> Found:
    if options.windows is not None:
        return windows(usage, options.windows)
    found = find_steps(snap, usage, annotation=options.annotation, period=options.period)
    if len(found.pieces) < LEAST_STEPS and not options.given:
        inside = sum(piece.stop - piece.first for piece in found.pieces)
        # Steps that are most of the recording say that it is short.
        if found.source is None or 2 * inside < usage.replay.events:
            longer = _without_steps(usage)
            found = longer if longer.source is not None or found.source is None else found
    return at_most(found, max(LEAST_STEPS * 8, MOST_CELLS // _most_groups(usage, grouper)))


def _without_steps(usage: Usage) -> Found:
    """Windows, where the recording is long enough that it cannot be a single step."""
    if usage.replay.events == 0:
        return Found(None, (), "no events were recorded")
    found = windows(usage, WINDOWS)
    if found.source is None:
        events = f"{usage.replay.events} event" + "s" * (usage.replay.events > 1)
        return Found(None, (), f"no steps were found, and {events} cannot tell a leak")
    allocated = churn(usage)
    if allocated >= MOST_CHURN:
        return found
    return Found(
        None,
        (),
        "no steps were found, and the recording may be a single step (it allocates only"
        f" {allocated:.1f} times as much as memory rises by); record {LEAST_STEPS} steps or more,"
        f" or try --windows {WINDOWS}",
    )


def _few(steps: int, found: Found) -> str:
    """Why steps cannot be judged; empty where they can."""
    if steps >= LEAST_STEPS:
        return ""
    if found.source is not None and found.source.kind == "whole":
        return (
            "no steps were found, and the recording may be a single one; record"
            f" {LEAST_STEPS} or more, or give --windows {WINDOWS}"
        )
    there = "1 step is" if steps == 1 else f"{steps} steps are"
    return (
        f"{there} too few to tell a leak from a start-up; record {LEAST_STEPS} or more, or give"
        f" --windows {WINDOWS}"
    )


def _unsure(steps: int, warm: int, source: StepSource) -> str | None:
    """Why a leak may not show in so many steps; None where they are many."""
    later = steps - warm
    if later >= FEW_STEPS or source.kind == "windows":
        return None
    return (
        f"{later} judged steps are few: a leak that adds something in every"
        f" {later // LEAST_RISES + 1} steps, or less often, cannot show in them; record"
        f" {FEW_STEPS * 3 // 2} steps or more"
    )


class _Search:
    """The search on one device."""

    def __init__(
        self,
        usage: Usage,
        whole: Usage,
        found: Found,
        options: LeaksOptions,
        top: int,
        grouper: Grouper,
    ) -> None:
        self.usage = usage
        self.whole = whole
        self.found = found
        self.options = options
        self.top = top
        self.grouper = grouper

    def result(self, trust: Verdict) -> DeviceLeaks:
        """What is found there; no group where there are no steps."""
        usage, replay = self.usage, self.usage.replay
        pieces = self.found.pieces
        summed = sum_steps(usage, pieces)
        judged = _before_the_end(summed, pieces, self.found, replay)
        if judged < len(pieces):
            pieces = pieces[:judged]
            summed = sum_steps(usage, pieces)
        levels = [summed.level, *(step.end_bytes for step in summed.steps)]
        warm = len(pieces) // 3
        leak_rows: Rows = ()
        once_rows: Rows = ()
        leaks_total = once_total = growing_rate = 0
        totals: Totals = (0,) * 9
        if pieces:
            from memreplay.engine.query import _growth

            moments = [pieces[0].first - 1, *(piece.stop - 1 for piece in pieces)]

            def grown(top: int) -> Grown:
                return _growth.groups_grown(
                    usage.native,
                    self.grouper.keys(usage),
                    moments,
                    levels,
                    warm,
                    self.options.older_than,
                    self.options.min_growth,
                    top,
                )

            leak_rows, leaks_total, once_rows, once_total, totals, young = grown(self.top)
            if totals[-1] or totals[-2]:
                growing_rate = _growing(summed, levels, young, warm)
            if (leaks_total or growing_rate or totals[WHOLE]) and self.grouper.by == "stack":
                every = grown(0)
                found = newly_trained(every[0], self._frames)
                if found:
                    leak_rows, leaks_total, once_rows, once_total, totals = _no_leaks(
                        every, found, self.top
                    )
                late = late_state([*found, *every[2]], self._frames, warm)
                if late:
                    # What a step computes for more parameters is no batch that grows.
                    growing_rate = 0
                if STATE_AND_GRADIENTS * late >= levels[-1] - levels[warm]:
                    totals = (*totals[:WHOLE], 0, *totals[WHOLE + 1 :])
        leak_rate, leak_bytes, once_bytes, most, old_bytes, old_count, whole_rate, *_ = totals
        growth = levels[-1] - levels[warm]
        if not leak_rate and (growth <= 0 or 2 * most > growth):
            # Memory is even, or it's noise on what one stack grew by once: no stacks take turns.
            whole_rate = 0
        # What is left for more is less by all that is there, not by what the filters leave.
        everything = summed if self.whole is usage else sum_steps(self.whole, pieces)
        durations = [step.duration_us for step in summed.steps[warm:]]
        timed = [one for one in durations if one is not None]
        step_us = median(timed) if timed else None
        missing = _few(len(pieces), self.found) if pieces else self.found.missing
        source = self.found.source
        guessed = source is not None and source.kind in GUESSED and self.options.windows is None
        sure = missing or leaks_total or whole_rate
        return DeviceLeaks(
            **inlined(DeviceLeaks, device_facts(self.grouper.snap, replay, trust)),
            measure=usage.measure,
            source=source,
            guessed=guessed,
            judged=not missing,
            not_judged=missing or None,
            unsure=None if sure or source is None else _unsure(len(pieces), warm, source),
            steps=len(pieces),
            warm_up_steps=warm,
            first_step_event=pieces[0].first + replay.first_event if pieces else -1,
            last_step_event=pieces[-1].stop - 1 + replay.first_event if pieces else -1,
            step_us=step_us,
            start_bytes=levels[0],
            warm_bytes=levels[warm],
            end_bytes=levels[-1],
            whole_bytes_per_step=whole_rate,
            growing_bytes_per_step=growing_rate,
            leaks=self._grown(leak_rows, once=False),
            leaks_total=leaks_total,
            leak_bytes_per_step=leak_rate,
            leak_bytes=leak_bytes,
            once=self._grown(once_rows, once=True),
            once_total=once_total,
            once_bytes=once_bytes,
            old_count=old_count,
            old_bytes=old_bytes,
            runs_out=None
            if guessed
            else _runs_out(
                everything,
                warm,
                leak_rate or whole_rate,
                _memory(replay, self.options.total_memory),
                step_us,
            ),
        )

    def _frames(self, name: int) -> tuple[Frame, ...]:
        """The frames of a group of one stack."""
        return self.grouper.group(self.usage, name, 0, 0, 0).frames

    def _grown(self, rows: Rows, *, once: bool) -> tuple[GrownGroup, ...]:
        found = []
        for row in rows:
            name, rate, stayed, start, warm, end, since, rises, until, stopped, *old = row
            old_bytes, old_count, error, odds, gained, made_up, replaced = old
            grew = stayed if once else gained
            group = self.grouper.group(self.usage, name, grew, old_count, 0)
            found.append(
                GrownGroup(
                    bytes_per_step=int(rate),
                    bytes_per_step_error=int(error),
                    odds=round(float(odds), 2),
                    growth_bytes=grew,
                    start_bytes=start,
                    warm_bytes=warm,
                    end_bytes=end,
                    since_step=since,
                    rises=rises,
                    until_step=until,
                    stopped=bool(stopped),
                    old_count=old_count,
                    old_bytes=old_bytes,
                    made_up_bytes_per_step=made_up,
                    replaced=replaced,
                    label=group.label,
                    user=group.user,
                    libraries=group.libraries,
                    frames=group.frames,
                    of=group.of,
                )
            )
        return tuple(found)


def _no_leaks(every: Grown, found: list[Row], top: int) -> tuple[Rows, int, Rows, int, Totals]:
    """All that grew, with these among what is no leak."""
    leaks, _, once, _, totals, _ = every
    rows = sorted(
        [*once, *((*row[:ODDS], 0.0, *row[ODDS + 1 :]) for row in found)],
        key=lambda row: -int(row[STAYED]),
    )
    left = [row for row in leaks if row not in found]
    rate, grew, in_once, *others = totals
    rate -= sum(row[RATE] for row in found)
    grew -= sum(row[GAINED] for row in found)
    in_once += sum(row[STAYED] for row in found)
    cut = top or len(rows) + len(left)
    return left[:cut], len(left), rows[:cut], len(rows), (rate, grew, in_once, *others)


def _before_the_end(summed: Summed, pieces: Sequence[Piece], found: Found, replay: Replay) -> int:
    """How many of the steps come before the end of the program, where it lets go of what leaked,
    too: the last step is of that if less is live after it than after each later step before it. Of
    windows it may be several."""
    count = len(pieces)
    if not pieces or pieces[-1].stop < replay.events:
        return count
    windows = found.source is not None and found.source.kind == "windows"
    least = max(LEAST_STEPS, count * 3 // 4 if windows else count - 1)
    ends = [step.end_bytes for step in summed.steps]
    while count > least and ends[count - 1] < min(ends[len(pieces) // 3 : count - 1]):
        count -= 1
    return count


def _growing(summed: Summed, levels: list[int], young: list[int], warm: int) -> int:
    """What each step needs more than the one before: its peak, above all that was there for longer
    before it; 0 if that does not grow all along."""
    from memreplay.engine.query import _growth

    needs = [
        step.peak_bytes - (level - replaced)
        for step, level, replaced in zip(summed.steps, levels, young, strict=False)
    ]
    grows, rate, *_ = _growth.judge([needs[0], *needs], warm, 1)
    return rate if grows else 0


class _Memory(NamedTuple):
    """The device's memory."""

    total_bytes: int
    usable_bytes: int
    source: MemorySource


def _memory(replay: Replay, given: int | None) -> _Memory | None:
    """The card that was given, or what the program had at an oom event, or the card that the
    recorder noted; None if nothing says."""
    recorded = replay.recorded
    if given is not None:
        return _Memory(given, recorded.usable_of(given), "given")
    usable = recorded.likely_total
    if usable is None:
        return None
    if replay.oom_free or replay.card_bytes is None:
        return _Memory(usable, usable, "oom")
    return _Memory(replay.card_bytes, usable, "recorded")


def _runs_out(
    summed: Summed, warm: int, rate: int, memory: _Memory | None, step_us: int | None
) -> RunsOut | None:
    """From the highest of the later steps on; None without a leak, or where nothing says how much
    memory there is."""
    if rate <= 0 or memory is None:
        return None
    peak = max(step.peak_bytes for step in summed.steps[warm:])
    steps = max(0, memory.usable_bytes - peak) // rate
    return RunsOut(
        total_bytes=memory.total_bytes,
        usable_bytes=memory.usable_bytes,
        source=memory.source,
        given=memory.source == "given",
        peak_bytes=peak,
        steps=steps,
        after_us=None if step_us is None else steps * step_us,
    )
