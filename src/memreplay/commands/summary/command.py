"""`memreplay summary`: a snapshot's contents, and whether its numbers can be trusted."""

from __future__ import annotations

from functools import partial

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.config import CHOICE
from memreplay.commands.shared.declaring import Files, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import write
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.showing import Shown, text_of
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.summary.find import summarize
from memreplay.commands.summary.result import SnapshotSummary
from memreplay.commands.summary.text import summary_document


@as_command(
    "summary",
    examples=(
        "memreplay summary snap.pkl",
        "memreplay summary rank*.pkl",
        "memreplay summary snap.pkl --strict && echo exact",
        "memreplay summary rank*.pkl --json | jq -r '[.file, .devices[0].peak_bytes] | @tsv'",
    ),
    without=CHOICE,
    only={"selection": ("strict",)},
    after="With several files, the highest exit code is returned.",
)
def command(files: Files, selection: Selection, reading: Reading, shown: Shown) -> int:
    """Show the format of each FILE ('-' for standard input), its events, memory and settings, and
    whether a replay is exact, or what to record differently. With --json, print one indented object
    for one file, or one object per line for several.
    """
    indent = None if len(files) > 1 else 2
    worst, written = 0, False
    for file in files:
        summary, exit_code = attempt(file, partial(_summarize, file, reading))
        worst = max(worst, exit_code)
        if summary is not None:
            if written and shown.format == "text":
                write("")
            write(text_of(summary, shown, summary_document, indent=indent))
            written = True
            worst = max(worst, trust_code(summary, selection.strict))
    return worst


def _summarize(file: str, reading: Reading) -> SnapshotSummary:
    with opened(file, reading) as snapshot:
        return summarize(snapshot)
