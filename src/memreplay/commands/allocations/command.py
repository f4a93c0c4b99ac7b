"""`memreplay allocations`: what was allocated over the recording, and for how long."""

from __future__ import annotations

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.allocations.find import AllocationsOptions, allocations_report
from memreplay.commands.allocations.result import AllocationsReport
from memreplay.commands.allocations.text import allocations_document
from memreplay.commands.shared.declaring import BLOCK_MEASURES, File, as_command
from memreplay.commands.shared.showing import ShownFrames, folded, present
from memreplay.commands.shared.source import Reading, opened


@as_command(
    "allocations",
    examples=(
        "memreplay allocations snap.pkl",
        "memreplay allocations snap.pkl --by category,file --sort count",
        "memreplay allocations snap.pkl --sort temporary --temporary 1",
        "memreplay allocations snap.pkl --by size --from 2.5s --to 3s",
        "memreplay allocations snap.pkl --top 0 --json > allocations.json",
    ),
    answers=allocations_report,
    words={"measure": BLOCK_MEASURES},
)
def command(
    file: File,
    options: AllocationsOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownFrames,
) -> int:
    """Count every allocation in FILE, or in a range of it: how many, how large, how long they
    lived, and how many were temporary. The code that allocated the most bytes comes first.
    """

    def work() -> AllocationsReport:
        with opened(file, reading) as snapshot:
            return allocations_report(snapshot, folded(selection, shown), options)

    return present(file, work, shown, allocations_document, strict=selection.strict)
