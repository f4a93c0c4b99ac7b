"""`memreplay plan`: the cheapest change with which a recorded program fits a card."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import OUTPUT, Selection
from memreplay.commands.dryrun.running import DryrunOptions
from memreplay.commands.plan.find import PlanOptions, plan_report
from memreplay.commands.plan.result import PlanReport
from memreplay.commands.plan.text import plan_document
from memreplay.commands.shared.declaring import (
    FileOrProgram,
    as_command,
    check_not_given,
    file_or_program,
)
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.progress import working
from memreplay.commands.shared.showing import Shown, text_of
from memreplay.commands.shared.source import Reading, opened
from memreplay.declared import Opt

NOTHING_FITS = 1
DRY = ("gpu", "settings", "timeout", "output", "force")  # options for a program


class ShownPlans(Shown, frozen=True):
    """Output options: text or JSON, and how much of it."""

    all: Annotated[
        bool, Opt("Also show memory against cost for all combinations.", group=OUTPUT)
    ] = False


@as_command(
    "plan",
    examples=(
        "memreplay plan snap.pkl --fit 24GiB",
        "memreplay plan --fit 24GiB -- python train.py",
        "memreplay plan snap.pkl --fit 16GiB --all",
        "memreplay plan snap.pkl --fit 24GiB --json | jq '.devices[0].plans[0].levers'",
    ),
    exits={
        1: "nothing found that fits",
        5: "no allocation was recorded",
        6: "the program failed or was stopped",
    },
    answers=plan_report,
    rules=True,
    only={"dry": DRY},
    words={
        "output": "Write the unchanged program's snapshot to this file. The default file is"
        " overwritten by each run.",
        "timeout": "Stop a dry run after this many seconds.",
    },
)
def command(
    words: FileOrProgram,
    options: PlanOptions,
    dry: DryrunOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownPlans,
) -> int:
    """Find the smallest and cheapest changes with which a program fits a card: modules to
    recompute, optimizer options, other forms of code, smaller batches, allocator settings, and
    combinations of these. Each plan is simulated with a model of PyTorch's allocator.

    FILE is a recording. For a COMMAND, memreplay records a dry run, and verifies each plan that
    needs no edit of the program with another one.
    """
    file, program = file_or_program(words)

    def work() -> PlanReport:
        if program:
            from memreplay.commands.plan.running import planned_program  # a browser runs none

            asked = replace(dry, program=program)
            return planned_program(asked, options.fit, selection, reading)
        with opened(file, reading) as snapshot, working("planning"):
            return plan_report(snapshot, selection, options)

    if not program:
        options.card()  # fail before reading the file
        check_not_given(dry, DRY, "a program; add -- python train.py")
    report, exit_code = attempt(file, work)
    if report is None:
        return exit_code
    write(text_of(report, shown, plan_document, show_all=shown.all))
    return trust_code(report, selection.strict) or (0 if report.found else NOTHING_FITS)
