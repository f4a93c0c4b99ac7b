"""`memreplay report`: one page about a snapshot, for someone who has two minutes."""

from __future__ import annotations

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.report.find import ReportOptions, overview
from memreplay.commands.report.result import Overview
from memreplay.commands.report.text import report_document
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.output import Output
from memreplay.commands.shared.showing import ShownPage, present
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
    only={"selection": ("strict",)},
    rules=True,
)
def command(
    file: File,
    options: ReportOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownPage,
    output: Output,
) -> int:
    """Says whether the numbers can be trusted, whether memory ran out, how high it went and who
    held it, what was reserved and not used, whether anything leaks, and what to do next. With
    several devices, the page is about the worst one.
    """
    folded = replace(selection, fold=shown.format != "json")

    def work() -> Overview:
        with opened(file, reading) as snapshot:
            return overview(snapshot, folded, options)

    return present(file, work, shown, report_document, strict=selection.strict, output=output)
