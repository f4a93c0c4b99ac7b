"""`memreplay oom`: why a request failed, and what would have helped."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.oom.find import OomOptions, oom_report
from memreplay.commands.oom.result import OomReport
from memreplay.commands.oom.text import LISTED, oom_document
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.showing import ShownFrames, folded, present
from memreplay.commands.shared.source import Reading, opened


@as_command(
    "oom",
    examples=(
        "memreplay oom snap.pkl",
        "memreplay oom snap.pkl --total-memory 80GiB",
        "memreplay oom snap.pkl --oom 3 --by file",
        "memreplay oom snap.pkl --json | jq -e 'all(.devices[]; .ooms == [])'",
    ),
    answers=oom_report,
    screen=True,
)
def command(
    file: File, options: OomOptions, selection: Selection, reading: Reading, shown: ShownFrames
) -> int:
    """Explain the first out-of-memory event in FILE: the request and the code that made it, why
    cached memory couldn't serve it, the cause, what would have helped, and what was live. If no
    request failed, show the state at the end, where the program may have failed.
    """

    def work() -> OomReport:
        most = LISTED if shown.format == "text" else 0
        with opened(file, reading) as snapshot:
            return oom_report(snapshot, folded(selection, shown), replace(options, most=most))

    return present(file, work, shown, oom_document, strict=selection.strict)
