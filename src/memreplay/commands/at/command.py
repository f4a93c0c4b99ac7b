"""`memreplay at`: what is live at a moment."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from memreplay.analysis.selecting.parsing import WHEN_FORMS, parse_when
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.at.find import AtOptions, at_report
from memreplay.commands.at.result import AtReport
from memreplay.commands.at.text import at_document, headlines
from memreplay.commands.shared.declaring import Arg, File, as_command
from memreplay.commands.shared.showing import ShownFrames, folded, present
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError
from memreplay.snapshot.model import When

Moments = Annotated[tuple[When, ...], Arg("[WHEN]...", required=False, parse=parse_when)]


@as_command(
    "at",
    examples=(
        "memreplay at snap.pkl peak:2 --list --top 50",
        "memreplay at snap.pkl 1.5s --by file",
        "memreplay at snap.pkl oom",
        "memreplay at snap.pkl step:3:peak",
        "memreplay at snap.pkl 'ProfilerStep#3:end'",
        "memreplay at snap.pkl --annotations",
        "memreplay at snap.pkl 0x7f12a0000000",
        "memreplay at snap.pkl start end --measure held",
        "memreplay at snap.pkl end --by category --rules",
        "memreplay at snap.pkl end --list --top 0 --json > live.json",
    ),
    screen=True,
    rules=True,
    after=f"WHEN is {WHEN_FORMS}.",
)
def command(
    file: File,
    when: Moments,
    options: AtOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownFrames,
) -> int:
    """Show the live allocations in FILE ('-' for standard input) at WHEN: peak:2, oom, end, step:3,
    an event (12000), a time (1.5s), an annotation or an address (--help-all lists all forms).
    They're grouped as in memreplay peak; --list also shows them one by one.
    """
    if not when and not options.annotations:
        raise UsageError(f"give a moment: {WHEN_FORMS}; --annotations lists all annotations")

    def work() -> AtReport:
        with opened(file, reading) as snapshot:
            return at_report(
                snapshot,
                when,
                folded(selection, shown),
                replace(options, whole_stacks=shown.all_frames),
            )

    return present(file, work, shown, at_document, last=headlines, strict=selection.strict)
