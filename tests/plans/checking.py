"""Apply the programs' plans, and compare their dry runs with the predictions.

For three cards per program, the first plan that needs no edit is applied: its dry run has to fit.
All levers are also tried by themselves: no cheaper one than the first plan may suffice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.planning.lever import Lever, Recording
from memreplay.analysis.planning.levers_of import levers_of
from memreplay.analysis.planning.search import ROOM, Plan, Search, cost_of
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.simulating.cards import CardSize
from memreplay.commands.dryrun.running import DryrunOptions
from memreplay.commands.plan.find import steps_of
from memreplay.commands.plan.running import Runs

SHARES = (0.85, 0.70, 0.55)  # of the recording's reserved peak
NEAR = 0.02  # relative error of a prediction that counts as near
MOST_SETS = 200  # of modules, that are simulated


class Row(NamedTuple):
    """A program on a card: its first plan that needs no edit, and other levers."""

    name: str
    share: float
    limit: int
    """Bytes that the program can use."""
    plan: Plan | None
    """The plan that was applied; None if none can be."""
    failed: tuple[Plan, ...]
    """Plans that were predicted to fit, but whose dry runs failed."""
    first: Plan | None
    """The cheapest plan, which may need edits."""
    missed: tuple[str, ...]
    """Single levers that are enough, and cheaper than the first plan."""

    @property
    def error(self) -> float | None:
        """Relative error of the predicted peak of requested bytes."""
        if self.plan is None or self.plan.checked is None:
            return None
        return self.plan.requested_bytes / self.plan.checked.requested_bytes - 1

    @property
    def reserved_error(self) -> float | None:
        """Relative error of the predicted peak of reserved bytes."""
        if self.plan is None or self.plan.checked is None:
            return None
        predicted = self.plan.simulated.outcome.reserved_peak_bytes
        return predicted / self.plan.checked.reserved_bytes - 1

    def line(self) -> str:
        """Return the row of the table."""
        start = f"{self.name:11} {self.share:4.0%} {_mib(self.limit)}"
        end = "".join(f"  FAILED: {_names(one.levers)}" for one in self.failed)
        end += "".join(f"  MISSED: {one}" for one in self.missed)
        if self.plan is None or self.plan.checked is None:
            others = "" if self.first is None else f"only edits: {_names(self.first.levers)}"
            return f"{start}  {others or 'no plan'}{end}"
        real, predicted = self.plan.checked, self.plan.simulated.outcome.reserved_peak_bytes
        return (
            f"{start} {_mib(self.plan.requested_bytes)} {_mib(real.requested_bytes)}"
            f" {self.error:+7.2%} {_mib(predicted)} {_mib(real.reserved_bytes)}"
            f" {self.reserved_error:+7.2%}  {_names(self.plan.levers)}{end}"
        )


HEAD = (
    f"{'program':11} card    usable predicted      real   error  reserved      real   error  plan"
    " (MiB)"
)


def rows_of(python: str, name: str, program: Path, folder: Path) -> Iterator[Row]:
    """Dry-run a program, and yield a row per card."""
    asked = DryrunOptions(
        program=(python, str(program)),
        as_json=True,
        output=str(folder / f"{name}.pickle"),
        force=True,
    )
    file = Runs(asked, 0, Selection()).recorded()
    with mr.open(file) as snap:
        (device,) = snap.devices
        replay = snap.replay(device)
        recording = Recording.made(snap, replay, Grouper(snap, "category"), steps_of(snap, replay))
        for share in SHARES:
            limit = int(share * replay.recorded.outcome.reserved_peak_bytes)
            card = CardSize(
                limit + (replay.card.context_bytes or 0), replay.card.context_bytes or 0
            )
            assert card.usable == limit
            runs = Runs(asked, card.total, Selection())
            first = next(iter(Search(recording, limit, measured=False).plans()), None)
            # Without levers that need edits, the first plan is the one to apply.
            search = Search(recording, limit, measured=False, check=runs.checks(device))
            search.levers = [one for one in search.levers if one.how != "edit"]
            search.most_plans = 1
            applied = next(iter(search.plans()), None)
            missed = tuple(_missed(search, levers_of(recording), first))
            yield Row(name, share, limit, applied, tuple(search.refuted), first, missed)


def _missed(search: Search, levers: Sequence[Lever], first: Plan | None) -> Iterator[str]:
    """Yield single levers that are enough in a simulation, and cheaper than the first plan."""
    units = [] if search.units is None else search.units.all
    recompute = [search.recomputing([units[at] for at in some]) for some in _sets(len(units))]
    some = [
        (one,) for one in (*levers, *recompute) if first is None or cost_of((one,)) < first.cost
    ]
    simulated = 0
    for (one,) in sorted(some, key=cost_of):
        program = search.applied((one,))
        if program.peak() > search.limit or simulated == MOST_SETS:
            continue
        simulated += 1
        room = int(search.limit * (1 - ROOM))
        replay = search.recording.replay
        if replay.simulate(program_memory=room, edit=program.edit(replay)).fits:
            yield one.named


def _sets(count: int) -> Iterator[tuple[int, ...]]:
    """Yield sets of modules: all of up to ten; else all runs, strides, and pairs."""
    every = range(count)
    if count <= 10:
        for size in range(1, count + 1):
            yield from combinations(every, size)
        return
    found = {tuple(every[a:b:step]) for a in every for b in every for step in (1, 2, 3)}
    yield from sorted((found | {tuple(every[a::step]) for a in every for step in (1, 2, 3)}) - {()})
    yield from combinations(every, 2)


def summary(rows: Sequence[Row]) -> str:
    """Return the figures of all rows in one paragraph."""
    applied = [one for one in rows if one.plan is not None]
    exact = sum(not one.error for one in applied)
    near = sum(abs(one.error or 0) <= NEAR for one in applied)
    tight = sum(abs(one.reserved_error or 0) <= NEAR for one in applied)
    failed = sum(len(one.failed) for one in rows)
    return (
        f"{len(applied)} of {len(rows)} cards have a plan without edits, and all of these fit;"
        f" {failed} other dry runs failed\n"
        f"requested: {exact} exact, {near} within {NEAR:.0%}; reserved: {tight} within {NEAR:.0%}\n"
        f"cheaper single levers that were missed: {sum(len(one.missed) for one in rows)}"
    )


def _names(levers: Sequence[Lever]) -> str:
    return " + ".join(one.named for one in levers) or "unchanged"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):9.1f}"
