"""`memreplay fleet`: compare all ranks of a run."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.fleet.calling import fleet
from memreplay.commands.fleet.options import Fleet
from memreplay.commands.fleet.running import run_fleet
from memreplay.commands.shared.declaring import Arg, as_command
from memreplay.commands.shared.errors import NOT_READABLE, NOT_TRUSTED, attempt
from memreplay.commands.shared.helping import OWN
from memreplay.commands.shared.output import check_output, write
from memreplay.commands.shared.progress import counted
from memreplay.commands.shared.showing import ShownPage, text_of
from memreplay.commands.shared.source import Reading
from memreplay.declared import Opt
from memreplay.errors import UsageError
from memreplay.fleets.result import FleetReport
from memreplay.fleets.text import fleet_document


def _parse_target(text: str) -> str:
    fmt, _, path = text.partition("=")
    if fmt != "html" or not path:
        raise UsageError(f"{text!r} is not html=FILE")
    return path


class ShownFleet(ShownPage, frozen=True):
    """Output options: text, JSON or Markdown, and whether to write a page, too."""

    pages: Annotated[
        tuple[str, ...],
        Opt(
            "Also write an interactive HTML page with a heat map of ranks over time.",
            "html=FILE",
            flag="--write",
            parse=_parse_target,
            among=lambda: ("html=",),
            group=OWN,
            brief="Also write an interactive page.",
        ),
    ] = ()


@as_command(
    "fleet",
    examples=(
        "memreplay fleet run/",
        "memreplay fleet 's3://bucket/run/**/*.pickle'",
        "memreplay fleet new/ --base base/",
        "memreplay fleet run/ --workers 8 --memory-per-worker 2GiB",
        "memreplay fleet run/ --total-memory 40GiB,24GiB",
        "memreplay fleet run/ --dump iteration_10",
        "memreplay fleet run/ --dump each",
        "memreplay fleet run/ --write html=run.html",
        "memreplay fleet run/ -o dataset/ --tables allocations,usage",
        "memreplay fleet run/ --workers tcp://head-node:8786",
        "memreplay fleet dumps/*.pkl --rank-pattern 'gpu([0-9]+)'",
        "memreplay fleet run/ --format markdown | gh issue comment 7 --body-file -",
        "memreplay fleet run/ --json | jq '.outliers[].rank'",
    ),
    answers=fleet,
    words={
        "force": "Overwrite the page, and replace other ranks in DIR.",
    },
    rules=True,
)
def command(
    sources: Annotated[tuple[str, ...], Arg("SOURCE...")],
    options: Fleet,
    selection: Selection,
    reading: Reading,
    shown: ShownFleet,
) -> int:
    """Read one snapshot per rank, from folders, patterns or files, with all processors or a
    cluster. Show each rank's peak, reserved memory and headroom, their spread, and which ranks look
    the same. For a rank unlike the others, show the code that makes the difference.
    """
    if options.output is None and options.tables is not None:
        raise UsageError("--tables is for a dataset; give -o DIR")
    if options.force and options.output is None and not shown.pages:
        raise UsageError("--force is for a dataset or a page; give -o DIR or --write html=FILE")
    for page in shown.pages:
        check_output(page, force=options.force, binary=True, read=sources)
    asked = replace(options, sources=sources)

    def work() -> FleetReport:
        return run_fleet(asked, reading, selection, partial(counted, what="ranks"))

    report, code = attempt("", work)
    if report is None:
        return code
    if shown.pages:
        from memreplay.commands.fleet.page import write_fleet_page  # imported late: rarely used

        for page in dict.fromkeys(shown.pages):
            write_fleet_page(report, page, selection.top)
    if "-" not in shown.pages:  # stdout would contain both the page and the text
        write(text_of(report, shown, fleet_document, top=selection.top))
    older = () if report.history is UNSET else report.history
    told = [one.status for one in report.ranks]
    told += [dump.status for one in older for dump in one.dumps]
    if report.unlisted_folders or any(status not in ("ok", "empty") for status in told):
        return NOT_READABLE
    return NOT_TRUSTED if selection.strict and not report.trusted else 0
