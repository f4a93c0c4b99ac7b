"""Dry-run a program, plan from its recording, and dry-run each plan that needs no edit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.planning.search import Checked
from memreplay.commands.dryrun.running import DEFAULT, PROGRAM_FAILED, exit_code, ran
from memreplay.commands.dryrun.text import verdict_line
from memreplay.commands.plan.find import planned
from memreplay.commands.shared.errors import say
from memreplay.commands.shared.source import opened
from memreplay.dryrun.cards import find
from memreplay.errors import MemreplayError, UsageError
from memreplay.render.units import size

if TYPE_CHECKING:
    from memreplay.analysis.planning.lever import Lever
    from memreplay.analysis.planning.search import Check
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.dryrun.result import DryrunReport
    from memreplay.commands.dryrun.running import DryrunOptions
    from memreplay.commands.plan.result import PlanReport
    from memreplay.commands.shared.source import Reading

ENOUGH = 1 << 40  # bytes of the card on which the unchanged program runs


class _RunFailedError(UsageError):
    """A run ended for another reason than memory, so there is nothing to plan."""

    def __init__(self, report: DryrunReport) -> None:
        words = [verdict_line(report)]
        words += [one for one in (report.error, report.hint) if one]
        super().__init__("; ".join(words))
        self.exit_code = exit_code(report) or PROGRAM_FAILED


def planned_program(
    asked: DryrunOptions, fit: int | None, selection: Selection, reading: Reading
) -> PlanReport:
    """Run the program unchanged, and return plans with which it fits a card with `fit` bytes in
    all, or the card that it's run on.

    Raises MemreplayError if the program can't be run, fails, or uses no GPU.
    """
    card = find(asked.gpu)
    total = card.bytes if fit is None else fit
    if total <= card.context_bytes:
        taken = size(card.context_bytes)
        raise UsageError(f"--fit {size(total)}: CUDA itself takes {taken} on {card.key}")
    # The program's own output doesn't belong to the report.
    program = Runs(replace(asked, as_json=True), total, selection)
    file = program.recorded()
    with opened(file, reading) as snap:
        report = planned(snap, selection, total, program.checks)
    return replace(report, command=asked.program, gpu=card.key)


class Runs:
    """Dry runs of one program: unchanged on a large card, and with changes on a card with `total`
    bytes.
    """

    def __init__(self, asked: DryrunOptions, total: int, selection: Selection) -> None:
        self._asked = asked
        self._total = total
        self._selection = selection
        self._count = 0
        self._known: dict[tuple[str, ...], DryrunReport | str] = {}

    def recorded(self) -> str:
        """Run the program unchanged, and return the name of its snapshot."""
        report = self._ran("unchanged", replace(self._asked, total_memory=ENOUGH))
        if report.outcome != "ended" or report.verdict == "not_known" or report.shown is None:
            raise _RunFailedError(report)
        return report.shown

    def checks(self, device: int) -> Check:
        """Return a function that runs the program with levers, and returns what a device of it
        needs.
        """

        def check(levers: Sequence[Lever]) -> Checked | None:
            if any(one.how == "edit" for one in levers):
                return None
            found = self._changed(levers)
            return Checked(found) if isinstance(found, str) else _checked(found, device)

        return check

    def _changed(self, levers: Sequence[Lever]) -> DryrunReport | str:
        """Return the report of a run with these levers, or why it failed."""
        names = tuple(one.named for one in levers)
        if names not in self._known:
            try:
                self._known[names] = self._ran(" + ".join(names) or "unchanged", self._with(levers))
            except MemreplayError as error:
                if isinstance(error, _RunFailedError):
                    raise
                self._known[names] = str(error)
        return self._known[names]

    def _with(self, levers: Sequence[Lever]) -> DryrunOptions:
        settings = tuple(one.argument for one in levers if one.how == "set")
        return replace(
            self._asked,
            total_memory=self._total,
            change=tuple(one.named for one in levers if one.how == "change"),
            settings=settings or self._asked.settings,
            stacks="python",  # the backward pass needs no names in this recording
        )

    def _ran(self, words: str, asked: DryrunOptions) -> DryrunReport:
        self._count += 1
        say(f"dry run {self._count} on {size(asked.total_memory or 0)}: {words}")
        if asked.total_memory == ENOUGH:
            report = ran(asked, self._selection)
        else:
            beside = os.path.dirname(os.path.realpath(asked.output or DEFAULT))
            with tempfile.TemporaryDirectory(prefix=".memreplay-", dir=beside) as folder:
                output = os.path.join(folder, "run.pickle")
                report = ran(replace(asked, output=output), self._selection)
        if report.stopped_by or report.outcome == "interrupted":
            raise _RunFailedError(report)
        return report


def _checked(report: DryrunReport, device: int) -> Checked:
    devices = [
        one for process in report.processes for one in process.devices if one.device == device
    ]
    return Checked(
        "" if report.verdict == "fits" else verdict_line(report),
        max((one.requested_peak_bytes for one in devices), default=0),
        max((one.reserved_peak_bytes for one in devices), default=0),
        report.spare_bytes,
        report.exact,
    )
