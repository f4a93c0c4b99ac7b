"""`memreplay plan`: the cheapest change with which a recorded program fits a card."""

from __future__ import annotations

from typing import Annotated

from memreplay.analysis.selecting.selection import OUTPUT, Selection
from memreplay.commands.plan.find import PlanOptions, plan_report
from memreplay.commands.plan.result import PlanReport
from memreplay.commands.plan.text import plan_document
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.progress import working
from memreplay.commands.shared.showing import Shown, text_of
from memreplay.commands.shared.source import Reading, opened
from memreplay.declared import Opt

NOTHING_FITS = 1


class ShownPlans(Shown, frozen=True):
    """Output options: text or JSON, and how much of it."""

    all: Annotated[
        bool, Opt("Also show memory against cost for all combinations.", group=OUTPUT)
    ] = False


@as_command(
    "plan",
    examples=(
        "memreplay plan snap.pkl --fit 24GiB",
        "memreplay plan snap.pkl --fit 16GiB --all",
        "memreplay plan snap.pkl --fit 24GiB --json | jq '.devices[0].plans[0].levers'",
    ),
    exits={1: "nothing found that fits", 5: "no allocation was recorded"},
    answers=plan_report,
    rules=True,
)
def command(
    file: File, options: PlanOptions, selection: Selection, reading: Reading, shown: ShownPlans
) -> int:
    """Find the smallest and cheapest changes with which FILE's program fits a card: modules to
    recompute, optimizer options, other forms of code, smaller batches, allocator settings, and
    combinations of these. Each plan is simulated with a model of PyTorch's allocator.
    """
    options.card()  # fail before reading the file

    def work() -> PlanReport:
        with opened(file, reading) as snapshot, working("planning"):
            return plan_report(snapshot, selection, options)

    report, exit_code = attempt(file, work)
    if report is None:
        return exit_code
    write(text_of(report, shown, plan_document, show_all=shown.all))
    return trust_code(report, selection.strict) or (0 if report.found else NOTHING_FITS)
