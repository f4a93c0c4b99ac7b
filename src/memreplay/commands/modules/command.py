"""`memreplay modules`: show memory by module, as recorded."""

from __future__ import annotations

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.modules.find import ModulesOptions, modules_report
from memreplay.commands.modules.result import ModulesReport
from memreplay.commands.modules.text import modules_document
from memreplay.commands.shared.config import CHOICE
from memreplay.commands.shared.declaring import BLOCK_MEASURES, File, as_command
from memreplay.commands.shared.showing import Shown, present
from memreplay.commands.shared.source import Reading, opened


@as_command(
    "modules",
    examples=(
        "memreplay modules snap.pickle",
        "memreplay modules snap.pickle --depth 3 --top 0",
        "memreplay modules snap.pickle --at end --sort gradients",
        "memreplay modules snap.pickle --json | jq '.devices[0].modules[] | select(.depth == 2)'",
    ),
    exits={5: "modules were not recorded"},
    answers=modules_report,
    without=CHOICE,
    words={"measure": BLOCK_MEASURES},
)
def command(
    file: File, options: ModulesOptions, selection: Selection, reading: Reading, shown: Shown
) -> int:
    """Show what each module held at the peak, or at another moment (--at): parameters, gradients,
    optimizer state and activations, and the peaks of its forward and backward passes. FILE must be
    recorded with memreplay.record (see memreplay help recording).
    """

    def work() -> ModulesReport:
        with opened(file, reading) as snapshot:
            return modules_report(snapshot, selection, options)

    return present(file, work, shown, modules_document, strict=selection.strict)
