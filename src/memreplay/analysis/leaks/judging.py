"""Find code whose memory grows from step to step, and predict when memory runs out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.holding import HoldersOfGroups
from memreplay.analysis.leaks.records import DeviceLeaks, GrownGroup, RunsOut
from memreplay.analysis.leaks.stackless import (
    INSIDE,
    leak_outside,
    stackless_group,
    stackless_keys,
    state_inside,
)
from memreplay.analysis.leaks.trained import (
    GAINED,
    NAME,
    ODDS,
    RATE,
    STATE_AND_GRADIENTS,
    STAYED,
    WHOLE,
    late_state,
    newly_trained,
)
from memreplay.analysis.selecting.choice import filtering_of
from memreplay.analysis.selecting.selection import Selection, TotalMemory
from memreplay.analysis.selecting.sizes import parse_size
from memreplay.analysis.steps.boundaries import WINDOWS, at_most, find_steps, windows
from memreplay.analysis.steps.guessing import MOST_CHURN, churn
from memreplay.analysis.steps.records import (
    GUESSED,
    STEP,
    Found,
    Piece,
    StepOptions,
    none_found,
)
from memreplay.analysis.steps.summing import Summed, median, sum_steps
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.declared import Opt
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.analysis.leaks.records import MemorySource, Unless
    from memreplay.analysis.steps.records import StepSource
    from memreplay.snapshot.model import Frame, Group, Verdict
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

    Row = tuple[Any, ...]
    Rows = Sequence[Row]
    Totals = tuple[int, ...]
    Grown = tuple[Rows, int, Rows, int, Totals, list[int]]

# With fewer steps, growth looks like warm-up.
LEAST_STEPS = 5
# With fewer judged steps, a leak that doesn't grow in every step can be missed. The report notes
# this.
FEW_STEPS = 20
# Limit on the number of groups times steps. If there are very many groups, steps are merged.
MOST_CELLS = 1 << 27


class LeaksOptions(StepOptions, frozen=True):
    """Options for what counts as a leak, and for where steps begin."""

    windows: Annotated[
        int | None,
        Opt(
            "each of N equal parts of the trace; default: 20, if the file has no steps",
            "N",
            least=5,
            most=4096,
            of=STEP,
        ),
    ] = None
    older_than: Annotated[
        int,
        Opt(
            "Count allocations that outlive N steps as old.",
            "N",
            least=0,
            brief="Call allocations old after N steps.",
        ),
    ] = 3
    min_growth: Annotated[
        int,
        Opt(
            "Don't count growth of less than this per step as a leak.",
            "SIZE",
            parse=parse_size,
            shown="1B",
            brief="Ignore growth of less than this per step.",
        ),
    ] = 1
    total_memory: TotalMemory = None


def device_leaks(
    snap: Snapshot,
    whole: Usage,
    selection: Selection,
    options: LeaksOptions | None = None,
    grouper: Grouper | None = None,
) -> DeviceLeaks:
    """Return one device's leaks.

    If there are no steps, the result's `step_source` is None. Steps come from `whole`; the
    selection's filters only define what is judged.
    """
    options, grouper = options or LeaksOptions(), grouper or Grouper(snap, "stack")
    filtering = filtering_of(snap, selection.filters)
    usage = whole if filtering is None else filtering.filtered(whole)
    found = _steps(snap, whole, grouper, options)
    trust = verdict(snap, usage, strict=selection.strict)
    searched = _Searched(whole, usage, found)
    return _Search(searched, grouper, options, selection.top).result(trust)


def _most_groups(usage: Usage, grouper: Grouper) -> int:
    """Return an upper bound on the number of groups, at least 1."""
    if grouper.by == "stack":
        return grouper.snap.code.stacks + 1
    return max(1, grouper.keys(usage).find_all())


def _steps(snap: Snapshot, usage: Usage, grouper: Grouper, options: LeaksOptions) -> Found:
    if options.windows is not None:
        return windows(usage, options.windows)
    found = find_steps(snap, usage, annotation=options.annotation, period=options.period)
    if len(found.pieces) < LEAST_STEPS and not options.given:
        inside = sum(piece.stop - piece.first for piece in found.pieces)
        # If the steps cover most of the recording, the recording is just short.
        if found.source is None or 2 * inside < usage.replay.events:
            longer = _without_steps(usage)
            found = longer if longer.source is not None or found.source is None else found
    return at_most(found, max(LEAST_STEPS * 8, MOST_CELLS // _most_groups(usage, grouper)))


def _without_steps(usage: Usage) -> Found:
    """Return windows in place of steps, if the recording is too long to be a single step."""
    if usage.replay.events == 0:
        return none_found("no events were recorded")
    found = windows(usage, WINDOWS)
    if found.source is None:
        events = f"{usage.replay.events} event" + "s" * (usage.replay.events > 1)
        return none_found(f"no steps were found, and {events} can't show a leak")
    allocated = churn(usage)
    if allocated >= MOST_CHURN:
        return found
    return none_found(
        "no steps were found",
        ", and the recording may be a single step (its allocations add up to"
        f" only {allocated:.1f} times the rise of memory); record {LEAST_STEPS} steps or more,"
        f" or try --step windows={WINDOWS}",
    )


def _few(steps: int, found: Found) -> Found:
    """Return why there are too few steps to judge; nothing is missing if there are enough."""
    if steps >= LEAST_STEPS or not steps:
        return found
    if found.source is not None and found.source.is_whole:
        return none_found(
            "no steps were found",
            ", and the recording may be a single step; record"
            f" {LEAST_STEPS} or more, define them with --step annotation=NAME or --step period=N,"
            f" or give --step windows={WINDOWS}",
        )
    there = "1 step is" if steps == 1 else f"{steps} steps are"
    # Windows don't help: growth in so few steps would look like growth that stopped.
    return none_found(
        f"{there} too few to distinguish a leak from warm-up", f"; record {LEAST_STEPS} or more"
    )


def _unsure(steps: int, warm: int, source: StepSource) -> str | None:
    """Return why a leak may be missed with this many steps; None if there are enough."""
    from memreplay.engine.query._growth import LEAST_RISES

    later = steps - warm
    if later >= FEW_STEPS or source.found_by == "windows":
        return None
    return (
        f"{later} judged steps are few: a leak that grows only once in {later // LEAST_RISES + 1}"
        f" steps or more would go unnoticed; record {FEW_STEPS * 3 // 2} steps or more"
    )


class _Growth(Struct, frozen=True):
    """Growth from step to step."""

    groups: tuple[Rows, int, Rows, int, Totals]
    """The leaking groups and their number, the groups that grew once and their number, and totals.
    """
    growing_rate: int = 0
    """How much more memory each step needs than the previous one."""
    unsure: bool = False
    """Whether the leaks may be optimizer state that was created late."""


NOTHING = _Growth(((), 0, (), 0, (0,) * 9))


class _Searched(Struct, frozen=True):
    """One device's memory, the part of it that is judged, and the steps."""

    whole: Usage
    usage: Usage
    found: Found


class _Search:
    """The search on one device."""

    def __init__(
        self, searched: _Searched, grouper: Grouper, options: LeaksOptions, top: int
    ) -> None:
        self.whole, self.usage, self.found = searched.whole, searched.usage, searched.found
        self.options = options
        self.top = top
        self.grouper = grouper
        self.stackless = None
        if grouper.by == "stack":
            self.stackless = stackless_keys(grouper.snap, self.usage)

    def result(self, trust: Verdict) -> DeviceLeaks:
        """Return the device's result. Without steps, the result has no groups."""
        usage, replay = self.usage, self.usage.replay
        pieces = self.found.pieces
        summed = sum_steps(usage, pieces)
        judged = _before_the_end(summed, pieces, self.found, replay)
        if judged < len(pieces):
            pieces = pieces[:judged]
            summed = sum_steps(usage, pieces)
        levels = [summed.level, *(step.end_bytes for step in summed.steps)]
        warm = len(pieces) // 3
        found = self._growth(summed, pieces, levels, warm) if pieces else NOTHING
        leak_rows, leaks_total, once_rows, once_total, totals = found.groups
        leak_rate, leak_bytes, once_bytes, most, old_bytes, old_count, whole_rate, *_ = totals
        growth = levels[-1] - levels[warm]
        if not leak_rate and (growth <= 0 or 2 * most > growth):
            # Memory doesn't grow, or one stack explains most of the growth. Either way, this isn't
            # a leak that alternates between stacks.
            whole_rate = 0
        # The remaining memory depends on all allocations, not only on those that pass the filters.
        everything = summed if self.whole is usage else sum_steps(self.whole, pieces)
        durations = [step.duration_us for step in summed.steps[warm:]]
        timed = [one for one in durations if one is not None]
        step_us = median(timed) if timed else None
        few = _few(len(pieces), self.found)
        source = self.found.source
        guessed = source is not None and source.found_by in GUESSED and self.options.windows is None
        sure = few.missing or leaks_total or whole_rate
        unless: Unless | None = None
        if leaks_total or whole_rate:
            unless = "single_pass" if guessed else "late_state" if found.unsure else None
        return DeviceLeaks(
            **inlined(DeviceLeaks, device_facts(self.grouper.snap, replay, trust)),
            measure=usage.measure,
            step_source=source,
            guessed=guessed,
            unless=unless,
            judged=not few.missing,
            not_judged_reason=few.missing or None,
            not_judged_brief=few.brief,
            unsure=None if sure or source is None else _unsure(len(pieces), warm, source),
            step_count=len(pieces),
            exit_steps=len(self.found.pieces) - len(pieces),
            warm_up_steps=warm,
            first_step_event=pieces[0].first + replay.first_event if pieces else -1,
            last_step_event=pieces[-1].stop - 1 + replay.first_event if pieces else -1,
            step_us=step_us,
            start_bytes=levels[0],
            warm_bytes=levels[warm],
            end_bytes=levels[-1],
            whole_bytes_per_step=whole_rate,
            growing_bytes_per_step=found.growing_rate,
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
            if unless is not None
            else _runs_out(
                everything,
                warm,
                leak_rate or whole_rate,
                _memory(replay, self.options.total_memory),
                step_us,
            ),
        )

    def _growth(
        self, summed: Summed, pieces: Sequence[Piece], levels: list[int], warm: int
    ) -> _Growth:
        """Return the groups that leak, and those that grew once."""
        from memreplay.engine.query import _growth

        moments = [pieces[0].first - 1, *(piece.stop - 1 for piece in pieces)]
        keys = self.stackless or self.grouper.keys(self.usage)

        def grown(top: int) -> Grown:
            return _growth.groups_grown(
                self.usage.native,
                keys,
                moments,
                levels,
                warm,
                self.options.older_than,
                self.options.min_growth,
                top,
            )

        leaks, leaks_total, once, once_total, totals, young = grown(self.top)
        growing = _growing(summed, levels, young, warm) if totals[-1] or totals[-2] else 0
        unsure = False
        if (leaks_total or growing or totals[WHOLE]) and self.grouper.by == "stack":
            every = grown(0)
            if self.stackless:
                late = state_inside(every[0], every[2])
                found = [row for row in every[0] if row[NAME] == INSIDE] if late else []
                unsure = bool(found) and not leak_outside(every[0], every[2])
                found = [] if unsure else found
            else:
                found = newly_trained(every[0], self._frames)
                late = late_state([*found, *every[2]], self._frames, warm)
            if found:
                leaks, leaks_total, once, once_total, totals = _no_leaks(every, found, self.top)
            if late:
                # The steps need more memory because more parameters are trained, not because the
                # batch grows.
                growing = 0
            if STATE_AND_GRADIENTS * late >= levels[-1] - levels[warm] and not unsure:
                totals = (*totals[:WHOLE], 0, *totals[WHOLE + 1 :])
        return _Growth((leaks, leaks_total, once, once_total, totals), growing, unsure)

    def _frames(self, name: int) -> tuple[Frame, ...]:
        """Return the frames of a group that consists of a single stack."""
        return self.grouper.group(self.usage, name, 0, 0, 0).frames

    def _group(self, name: int, size: int, count: int) -> Group:
        if self.stackless:
            return stackless_group(self.grouper, self.usage, name)
        return self.grouper.group(self.usage, name, size, count, 0)

    def _grown(self, rows: Rows, *, once: bool) -> tuple[GrownGroup, ...]:
        found = []
        keys = self.stackless or self.grouper.keys(self.usage)
        held = HoldersOfGroups(self.grouper, self.usage, keys)
        for row in rows:
            name, rate, stayed, start, warm, end, since, rises, until, stopped, *old = row
            old_bytes, old_count, error, odds, gained, made_up, replaced = old
            grew = stayed if once else gained
            group = self._group(name, grew, old_count)
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
                    holders=held.of(name),
                    label=group.label,
                    user=group.user,
                    libraries=group.libraries,
                    frames=group.frames,
                    of=group.of,
                )
            )
        return tuple(found)


def _no_leaks(every: Grown, found: list[Row], top: int) -> tuple[Rows, int, Rows, int, Totals]:
    """Move these rows from the leaks to the groups that grew once."""
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
    """Return the number of steps before the program begins to exit. Exiting also frees leaked
    memory, so later steps aren't judged.

    The last step is part of the exit if less is live after it than after any other judged step.
    With windows, several steps can be part of it.
    """
    count = len(pieces)
    if not pieces or pieces[-1].stop < replay.events:
        return count
    windows = found.source is not None and found.source.found_by == "windows"
    least = max(LEAST_STEPS, count * 3 // 4 if windows else count - 1)
    ends = [step.end_bytes for step in summed.steps]
    while count > least and ends[count - 1] < min(ends[len(pieces) // 3 : count - 1]):
        count -= 1
    return count


def _growing(summed: Summed, levels: list[int], young: list[int], warm: int) -> int:
    """Return how much the memory that a step needs grows per step, or 0 if it doesn't grow
    steadily. A step needs its peak minus the memory from before the step.
    """
    from memreplay.engine.query import _growth

    needs = [
        step.peak_bytes - (level - replaced)
        for step, level, replaced in zip(summed.steps, levels, young, strict=False)
    ]
    grows, rate, *_ = _growth.judge([needs[0], *needs], warm, 1)
    return rate if grows else 0


class _Memory(Struct, frozen=True):
    """The size of the device's memory, and where it's from."""

    total_bytes: int
    usable_bytes: int
    source: MemorySource


def _memory(replay: Replay, given: int | None) -> _Memory | None:
    """Return the given memory or else the size from an oom event or the recorded card. Return None
    if all of these are unknown.
    """
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
    """Predict when memory runs out, starting from the highest judged step. Return None if nothing
    leaks or the memory's size is unknown.
    """
    if rate <= 0 or memory is None:
        return None
    peak = max(step.peak_bytes for step in summed.steps[warm:])
    steps = max(0, memory.usable_bytes - peak) // rate
    return RunsOut(
        total_memory_bytes=memory.total_bytes,
        usable_bytes=memory.usable_bytes,
        total_memory_source=memory.source,
        given=memory.source == "given",
        peak_bytes=peak,
        step_count=steps,
        after_us=None if step_us is None else steps * step_us,
    )
