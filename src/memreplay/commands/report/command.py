"""`memreplay report`: one page about a snapshot."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.report.find import ReportOptions, overview
from memreplay.commands.report.result import Overview
from memreplay.commands.report.text import report_document
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.showing import ShownReport, present
from memreplay.commands.shared.source import Reading, opened


@as_command(
    "report",
    examples=(
        "memreplay report snap.pkl",
        "memreplay report snap.pkl --total-memory 80GiB",
        "memreplay report snap.pkl --format markdown -o report.md",
        "memreplay report snap.pkl --format markdown | gh pr comment --body-file -",
        "memreplay report snap.pkl --json | jq -r '.devices[].advice[].text'",
    ),
    answers=overview,
    rules=True,
)
def command(
    file: File,
    options: ReportOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownReport,
) -> int:
    """Say whether the numbers are trustworthy, whether memory ran out, how high usage went and what
    held the memory, how much was reserved but unused, whether anything leaks, and what to do next.
    With several devices, the page covers the worst one.
    """
    folded = replace(selection, fold=shown.format != "json")

    def work() -> Overview:
        with opened(file, reading) as snapshot:
            return overview(snapshot, folded, options)

    return present(file, work, shown, report_document, strict=selection.strict)
