"""`memreplay fleet`: all ranks of a run, each by itself and beside the others."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import UNSET
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.fleet.asked import Fleet
from memreplay.commands.fleet.running import run_fleet
from memreplay.commands.shared.declaring import Arg, as_command
from memreplay.commands.shared.errors import NOT_READABLE, NOT_TRUSTED, attempt
from memreplay.commands.shared.output import check_output, write
from memreplay.commands.shared.progress import counted
from memreplay.commands.shared.showing import ShownPage, text_of
from memreplay.commands.shared.source import Reading
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.fleets.result import FleetReport
from memreplay.fleets.text import fleet_document


class Page(Options, frozen=True):
    """Whether to write a page, too."""

    page: Annotated[
        str | None,
        Opt(
            "Write an interactive page, too, that any browser opens: ranks by time as a heat map.",
            "FILE",
            path="file",
            brief="Write an interactive page, too.",
        ),
    ] = None


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
        "memreplay fleet run/ --page run.html",
        "memreplay fleet run/ -o dataset/ --tables allocations,usage",
        "memreplay fleet run/ --scheduler tcp://head-node:8786",
        "memreplay fleet dumps/*.pkl --rank-pattern 'gpu([0-9]+)'",
        "memreplay fleet run/ --format markdown | gh issue comment 7 --body-file -",
        "memreplay fleet run/ --json | jq '.outliers[].rank'",
    ),
    only={"selection": ("measure", "top", "strict")},
    words={
        "force": "Replace the page, and other ranks in DIR.",
    },
    rules=True,
)
def command(
    sources: Annotated[tuple[str, ...], Arg("SOURCE...")],
    options: Fleet,
    page: Page,
    selection: Selection,
    reading: Reading,
    shown: ShownPage,
) -> int:
    """Reads one snapshot a rank, from folders, patterns or files, on all processors or a cluster.
    Shows each rank's peak, reserved memory and headroom, how they spread, and which ranks hold the
    same; for a rank that is like no other, the code that makes the difference.
    """
    if options.output is None and options.tables is not None:
        raise UsageError("--tables is for a dataset: give -o DIR")
    if options.force and options.output is None and page.page is None:
        raise UsageError("--force is for a dataset or a page: give -o DIR or --page FILE")
    if page.page is not None:
        check_output(page.page, force=options.force, binary=True, read=sources)
    fleet = replace(options, sources=sources)

    def work() -> FleetReport:
        return run_fleet(fleet, reading, selection, partial(counted, what="ranks"))

    report, code = attempt("", work)
    if report is None:
        return code
    if page.page is not None:
        from memreplay.commands.fleet.page import write_fleet_page  # late: few ask for it

        write_fleet_page(report, page.page, selection.top)
    write(text_of(report, shown, fleet_document, top=selection.top))
    older = () if report.history is UNSET else report.history
    told = [one.status for one in report.ranks]
    told += [dump.status for one in older for dump in one.dumps]
    if report.unlisted_folders or any(status not in ("ok", "empty") for status in told):
        return NOT_READABLE
    return NOT_TRUSTED if selection.strict and not report.trusted else 0
