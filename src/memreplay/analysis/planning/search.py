"""Find the cheapest combinations of levers with which a recorded program fits a card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.advising.settings import EXPANDABLE
from memreplay.analysis.planning.lever import CERTAINTIES, PRICES, Lever
from memreplay.analysis.planning.levers_of import levers_of
from memreplay.analysis.planning.modules import Unit, Units, argument, without_title
from memreplay.analysis.simulating.searching import search as search_settings
from memreplay.engine.query._vectors import zeros
from memreplay.snapshot.alloc_conf import spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memreplay.analysis.planning.lever import Certainty, Recording
    from memreplay.analysis.planning.program import Program
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.alloc_conf import AllocatorSettings
    from memreplay.snapshot.recorded_allocator import Edit
    from memreplay.snapshot.simulated import Simulated

MOST_PLANS = 3
MOST_LEVERS = 3  # in one plan, besides recomputed modules
LEAST_SHARE = 0.005  # a lever that lowers the peak by less isn't used
MOST_TRIED = 60  # simulations
TIGHTER = 0.95  # how far to lower the requested peak if the simulation doesn't fit
MOST_TIGHTER = 5
MOST_SETS = 16  # of modules, that are simulated for one combination
MOST_REFUTED = 5  # plans that failed when they were checked
ROOM = 0.03  # share of the card's memory that a plan leaves unused
UNKNOWN_SHARE = 0.5  # used for an unknown time when plans are ordered
# Recomputing, splitting batches and other forms of code don't change these.
STAYS = ("parameters", "gradients", "optimizer state")


class Cost(NamedTuple):
    """A plan's cost. Plans are compared by these fields, in this order."""

    price: int
    edits: int
    """Number of levers that need an edit of the program, beyond options and arguments."""
    time: float
    levers: int


class Checked(NamedTuple):
    """The result of a run of the changed program on the card."""

    failure: str
    """Why the program doesn't fit; empty if it does."""
    requested_bytes: int = 0
    reserved_bytes: int = 0
    spare_bytes: int = 0
    exact: bool = False
    """Whether the run's numbers are exact."""


class Plan(NamedTuple):
    """Levers with which a program fits, and the simulation that shows it."""

    levers: tuple[Lever, ...]
    requested_bytes: int
    """The predicted peak of requested bytes."""
    simulated: Simulated
    checked: Checked | None = None
    """None if the changed program wasn't run."""

    @property
    def cost(self) -> Cost:
        return cost_of(self.levers)

    @property
    def certainty(self) -> Certainty:
        """How certain the predicted peak is: as certain as its least certain lever."""
        return max((one.certainty for one in self.levers), key=CERTAINTIES.index, default="exact")


class Floor(NamedTuple):
    """The most bytes of parameters, gradients and optimizer state that are live at once."""

    bytes: int
    category_bytes: dict[str, int]
    event: int


class Tried(NamedTuple):
    """A combination of levers with its predicted peak."""

    levers: tuple[Lever, ...]
    requested_bytes: int


Check = Callable[[Sequence[Lever]], "Checked | None"]
"""Runs the program with these levers; returns None if they can't be applied from outside."""


def unchecked(_levers: Sequence[Lever]) -> None:
    """Don't run anything, because there is only a recording."""


class Search:
    """Searches plans for one device. `limit`: bytes that the program can use on the card.
    `measured`: whether a real run was recorded, so that its times count.
    """

    def __init__(
        self, recording: Recording, limit: int, *, measured: bool, check: Check = unchecked
    ) -> None:
        self.check = check
        self.most_plans = MOST_PLANS
        self.refuted: list[Plan] = []
        self.recording = recording
        self.limit = limit
        self.program = recording.program()
        self.tried: list[Tried] = []
        notes = recording.notes
        self.units = None
        if notes is not None:
            self.units = Units(notes, recording.replay, measured=measured)
            if not self.units.all:
                self.units = None
        least = LEAST_SHARE * self.program.peak()
        self.levers = []
        for lever in levers_of(recording):
            assert lever.effect is not None
            changed = self.program.with_effect(lever.effect)
            if self.program.peak() - changed.peak() >= least or self._helps(lever, least):
                self.levers.append(lever)
        self._simulations = 0

    def _helps(self, lever: Lever, least: float) -> bool:
        """Return whether a lever lowers the peak once modules are recomputed."""
        if self.units is None or lever.effect is None:
            return False
        before = self.units.applied(self.program, self.units.all)
        return before.peak() - before.with_effect(lever.effect).peak() >= least

    def floor(self) -> Floor:
        """Return the lower bound."""
        lives = self.recording.lives
        kept = {name: self.recording.of(name, f"unsharded {name}") for name in STAYS}

        def levels(rows: Vector) -> Vector:
            change = zeros(lives.events + 1)
            change.add_at(lives.start[rows], lives.bytes[rows])
            change.add_at(lives.end[rows], -lives.bytes[rows])
            return change[:-1].sums()

        found = {name: levels(rows) for name, rows in kept.items()}
        # While new gradients are added to old ones, there are more than the optimizer needs.
        found["gradients"] = found["gradients"].lower(found["parameters"])
        whole = found["parameters"] + found["gradients"] + found["optimizer state"]
        at = whole.argmax() if len(whole) else 0
        parts = {name: one[at] for name, one in found.items() if len(one) and one[at]}
        return Floor(whole.max(initial=0), parts, at)

    def plans(self) -> list[Plan]:
        """Return at most three plans, cheapest first. None contains all levers of a cheaper one."""
        found: list[Plan] = []
        for some in self._candidates():
            if len(found) == self.most_plans or self._simulations >= MOST_TRIED:
                break
            if any(_keys(plan.levers) <= _keys(some) for plan in found):
                continue
            for plan in self._simulated_plans(some):
                if any(_keys(one.levers) <= _keys(plan.levers) for one in found):
                    break
                if len(self.refuted) == MOST_REFUTED and not _needs_edit(plan.levers):
                    break
                checked = self.check(plan.levers)
                plan = plan._replace(checked=checked)
                if checked is None or not checked.failure:
                    found.append(plan)
                    break
                self.refuted.append(plan)
        return sorted(found, key=lambda one: one.cost)

    def _candidates(self) -> Iterator[tuple[Lever, ...]]:
        """Yield combinations that are predicted to fit, cheapest first."""
        yield ()  # the program may fit with other allocator settings
        self._try_modules()
        fitting: list[tuple[Lever, ...]] = []
        for count in range(MOST_LEVERS + 1):
            if count > 2 and len(fitting) >= MOST_PLANS:
                break
            for some in combinations(self.levers, count):
                words = [one.excludes for one in some if one.excludes]
                if len(set(words)) < len(words):
                    continue
                if any({*map(id, one)} <= {*map(id, some)} for one in fitting):
                    continue  # the program already fits with some of these levers
                program = self._changed(some)
                peak = program.peak()
                if some:
                    self.tried.append(Tried(some, peak))
                if some and peak <= self.limit:
                    fitting.append(some)
                if (count < 2 or peak <= self.limit) and (lever := self._recompute(program)):
                    fitting.append((*some, lever))
        yield from sorted(fitting, key=cost_of)

    def _try_modules(self) -> None:
        """Try recomputing all modules, and every second one."""
        if self.units is None:
            return
        for chosen in (self.units.all, self.units.all[::2]):
            lever = self.recomputing(chosen)
            self.tried.append(Tried((lever,), self.applied((lever,)).peak()))

    def _changed(self, some: Sequence[Lever]) -> Program:
        program = self.program
        for one in some:
            if one.effect is not None:
                program = program.with_effect(one.effect)
        return program

    def _recompute(self, program: Program, limit: int | None = None) -> Lever | None:
        """Return the cheapest recomputation of modules that is enough; None if none is needed or
        enough.
        """
        if self.units is None:
            return None
        limit = self.limit if limit is None else limit
        chosen = self.units.smallest(program, limit)
        if not chosen:
            return None
        return self.recomputing(chosen)

    def recomputing(self, chosen: Sequence[Unit]) -> Lever:
        """Return the lever that recomputes these modules."""
        units = self.units
        assert units is not None
        every = [without_title(one.name) for one in units.all]
        names = argument([without_title(one.name) for one in chosen], every)
        how = "by the recording's times" if units.measured else "by the bytes that they allocate"
        return Lever(
            "checkpoint",
            names,
            f"recompute {names.replace(',', ', ')}",
            None,
            "time",
            sum(one.time_share for one in chosen),
            f"their forward passes run twice (share of a step {how})",
            "change",
            "x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
            certainty="usually_exact",
            guess="which arguments a module holds is inferred",
            units=tuple(chosen),
        )

    def applied(self, some: Sequence[Lever]) -> Program:
        """Return the program with these levers."""
        program = self._changed(some)
        for one in some:
            if one.units and self.units is not None:
                program = self.units.applied(program, one.units)
        return program

    def _simulated_plans(self, some: tuple[Lever, ...]) -> Iterator[Plan]:
        """Yield the plans that fit in a simulation: with the recorded settings or other ones, and
        with the cheapest sets of modules first.
        """
        if self.units is None or not any(one.units for one in some):
            yield from self._simulated([some])
            return
        rest = tuple(one for one in some if not one.units)
        program = self._changed(rest)
        sets = islice(self.units.sets(program, self.limit), MOST_SETS)
        levers = [self.recomputing(one) for one in sets if one]
        refuted = len(self.refuted)
        tried = set()
        for _, group in groupby(levers, key=lambda one: cost_of((one,))):
            alike = list(group)
            tried |= {one.argument for one in alike}
            yield from self._simulated([(*rest, one) for one in alike])
            if len(self.refuted) > refuted:
                break
        # The allocator reserves more than is requested, so recompute more, up to all modules.
        for step in range(1, MOST_TIGHTER + 1):
            limit = int(self.limit * TIGHTER**step)
            lever = self._recompute(program, limit) if step < MOST_TIGHTER else None
            if lever is None:
                lever = self.recomputing(self.units.all)
            if lever.argument not in tried:
                yield from self._simulated([(*rest, lever)])
            tried.add(lever.argument)

    def _simulated(self, alike: Sequence[tuple[Lever, ...]]) -> Iterator[Plan]:
        """Yield the plans that fit in a simulation, of those that cost the same: with the recorded
        settings, then the first one with other settings.
        """
        replay = self.recording.replay
        fitting = [(some, self.applied(some)) for some in alike]
        fitting = [(some, program) for some, program in fitting if program.peak() <= self.limit]
        for some, program in fitting:
            # The order in which the changed program frees memory isn't known exactly.
            found = replay.simulate(
                program_memory=self._room(some), edit=program.edit(replay) if some else None
            )
            self._simulations += 1
            if found.fits:
                yield self._plan(some, program, found)
                break
        for some, program in fitting[:1]:
            edit = program.edit(replay) if some else None
            for found in self._others(edit, self._room(some), every=not some):
                if found.fits:
                    yield self._plan((*some, _settings(found.settings)), program, found)
                    break

    def _room(self, some: Sequence[Lever]) -> int:
        return max(int(self.limit * (1 - ROOM)), 1) if some else self.limit

    def _plan(self, some: tuple[Lever, ...], program: Program, found: Simulated) -> Plan:
        peak = program.peak()
        self.tried.append(Tried(some, peak))
        return Plan(some, peak, found)

    def _others(self, edit: Edit | None, limit: int, *, every: bool) -> Iterable[Simulated]:
        """Return simulations with other settings, best first: all candidates, or the setting that
        most often helps.
        """
        replay = self.recording.replay
        if every:
            return search_settings(replay, replay.settings, limit, edit)
        if replay.settings.expandable:
            return ()
        return (replay.simulate(EXPANDABLE, program_memory=limit, edit=edit),)

    def tradeoffs(self) -> list[Tried]:
        """Return the tried combinations that no other one beats in both memory and cost, from the
        highest peak on.
        """
        found: list[Tried] = []
        for one in sorted(self.tried, key=lambda one: (one.requested_bytes, cost_of(one.levers))):
            if not found or cost_of(one.levers) < cost_of(found[-1].levers):
                found.append(one)
        return found[::-1]


def cost_of(some: Sequence[Lever]) -> Cost:
    """Return what levers cost together."""
    return Cost(
        max((PRICES.index(one.price) for one in some), default=0),
        sum(one.how == "edit" for one in some),
        sum(UNKNOWN_SHARE if one.time_share is None else one.time_share for one in some),
        len(some),
    )


def _needs_edit(some: Sequence[Lever]) -> bool:
    return any(one.how == "edit" for one in some)


def _settings(settings: AllocatorSettings) -> Lever:
    return Lever(
        "set",
        spelled(settings),
        "other allocator settings",
        None,
        "free",
        0.0,
        "less memory lies unused",
        "set",
        f"PYTORCH_CUDA_ALLOC_CONF={spelled(settings)}",
        certainty="exact",
    )


def _names_of(some: Sequence[Lever]) -> tuple[str, ...]:
    return tuple(one.named for one in some)


def _keys(some: Sequence[Lever]) -> set[tuple[str, str]]:
    """Return what to compare levers by. Those that only differ in how much they do are alike."""
    return {(one.name, one.argument if one.name == "optimizer" else "") for one in some}
