"""`memreplay steps`: how each step of a program uses memory."""

from __future__ import annotations

from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.steps.records import StepOptions
from memreplay.commands.shared.config import CHOICE
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.showing import ShownRows, text_of
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.steps.find import steps_report
from memreplay.commands.steps.result import StepsReport
from memreplay.commands.steps.text import steps_document

NO_STEPS = 5


@as_command(
    "steps",
    examples=(
        "memreplay steps snap.pkl",
        "memreplay steps snap.pkl --top 0 --measure held",
        "memreplay steps snap.pkl --step annotation=decode",
        "memreplay steps snap.pkl --json | jq '.devices[0].steps[].peak_bytes'",
    ),
    exits={5: "no steps"},
    words={"top": "Show N steps: the first, the last and unusual ones; 0 for all."},
    answers=steps_report,
    without=CHOICE,
)
def command(
    file: File, options: StepOptions, selection: Selection, reading: Reading, shown: ShownRows
) -> int:
    """Show each step's peak, the memory live at its end and its growth, and which steps differ from
    the others. Annotations mark the steps; without any, a step ends where the stacks show the
    optimizer, or steps are whatever repeats in the trace.
    """

    def work() -> StepsReport:
        with opened(file, reading) as snapshot:
            return steps_report(snapshot, selection, options)

    report, exit_code = attempt(file, work)
    if report is None:
        return exit_code
    write(text_of(report, shown, steps_document, top=shown.top))
    return trust_code(report, selection.strict) if report.found else NO_STEPS
