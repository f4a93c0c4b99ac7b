"""`memreplay steps`: what each step of a program does to memory."""

from __future__ import annotations

from memreplay.analysis.selecting.selection import Filters, Selection
from memreplay.analysis.steps.records import StepOptions
from memreplay.commands.shared.config import CHOICE
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.showing import Shown, present
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.steps.find import steps_report
from memreplay.commands.steps.result import StepsReport
from memreplay.commands.steps.text import steps_document


@as_command(
    "steps",
    examples=(
        "memreplay steps snap.pkl",
        "memreplay steps snap.pkl --top 0 --measure held",
        "memreplay steps snap.pkl --step-annotation decode",
        "memreplay steps snap.pkl --json | jq '.devices[0].steps[].peak_bytes'",
    ),
    exits={5: "no steps"},
    words={"top": "Show N steps, the first, the last and odd ones; 0 for all."},
    without=("by", *Filters.__struct_fields__, *CHOICE),
)
def command(
    file: File, options: StepOptions, selection: Selection, reading: Reading, shown: Shown
) -> int:
    """Shows the peak of each step, what is live at its end, how much that grew, and which steps
    differ from the others. Steps are those that annotations mark, else they end where the stacks
    show the optimizer, else they are what repeats in the trace.
    """

    def work() -> StepsReport:
        with opened(file, reading) as snapshot:
            return steps_report(snapshot, selection, options)

    return present(file, work, shown, steps_document, strict=selection.strict, top=selection.top)
