"""`memreplay timeline`: measures over time or events, as a plot or numbers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import (
    Output,
    byte_output,
    render_document,
    write,
)
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.source import Reading, opened
from memreplay.commands.timeline.find import TimelineOptions, timeline_report
from memreplay.commands.timeline.text import text_points, timeline_document
from memreplay.declared import Opt, Options
from memreplay.texts import clean_lines
from memreplay.width import terminal_width

if TYPE_CHECKING:
    from memreplay.commands.timeline.result import TimelineReport

PICTURES = ("png", "svg")


class ShownTimeline(Options, frozen=True):
    """Output options: a plot drawn with characters, an image, or numbers."""

    format: Annotated[
        Literal["text", "csv", "json", "png", "svg"],
        Opt(
            "Output format: text (a plot drawn with characters), csv or json (numbers; see"
            " memreplay help timeline), png or svg (pictures).",
            "NAME",
            brief="text, csv, json, or a picture: png, svg.",
        ),
    ] = "text"
    output: Output = Output()


@as_command(
    "timeline",
    examples=(
        "memreplay timeline snap.pkl --by file --top 5",
        "memreplay timeline snap.pkl --measure requested,reserved --x event",
        "memreplay timeline snap.pkl --by stack --format png -o timeline.png",
        "memreplay timeline snap.pkl --points 5000 --format csv -o timeline.csv",
    ),
    answers=timeline_report,
    words={
        "by": "Draw the groups that hold the most at any time as layers: by stack, file, category,"
        " … as in memreplay peak.",
        "top": "Show the N largest groups; 0 for all.",
    },
    screen=True,
)
def command(
    file: File,
    options: TimelineOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownTimeline,
) -> int:
    """Draw the memory of each device in FILE over time or events. Every spike is visible;
    annotations and out-of-memory events are marked. --by draws a layer for each group that held
    memory.
    """
    absolute = options.x == "utc"
    picture = shown.format in PICTURES
    output = shown.output
    if output.output is not None or picture:
        output.check([file], picture=picture)
    if picture:
        from memreplay.render.plot import check_plot  # imported late: loads matplotlib

        check_plot()
    if options.points is None and shown.format == "text":
        options = replace(options, points=text_points(terminal_width()))
    selection = replace(selection, fold=shown.format not in ("json", "csv"))

    def work() -> TimelineReport:
        with opened(file, reading) as snapshot:
            return timeline_report(snapshot, selection, options)

    report, exit_code = attempt(file, work)
    if report is not None:
        _write(report, shown, absolute=absolute)
        exit_code = trust_code(report, selection.strict)
    return exit_code


def _write(report: TimelineReport, shown: ShownTimeline, *, absolute: bool) -> None:
    if shown.format in PICTURES:
        # Imported late: needs matplotlib
        from memreplay.commands.timeline.plot import render_timeline_plot

        picture = render_timeline_plot(report, shown.format, absolute=absolute)
    else:
        text = _text(report, shown, absolute=absolute, plain=shown.output.is_file)
        if not shown.output.is_file:
            write(clean_lines(text) if shown.format == "csv" and sys.stdout.isatty() else text)
            return
        picture = text.encode("utf-8", "replace") + b"\n"
    with byte_output(shown.output.output) as out:
        out.write(picture)


def _text(report: TimelineReport, shown: ShownTimeline, *, absolute: bool, plain: bool) -> str:
    if shown.format == "json":
        # Imported late: text output doesn't need it.
        from memreplay.render.record_json import render_json

        return render_json(report, indent=None)
    if shown.format == "csv":
        # Imported late: rarely used
        from memreplay.commands.timeline.csv import render_timeline_csv

        return render_timeline_csv(report)
    document = timeline_document(report, terminal_width(), absolute=absolute)
    if plain:
        from memreplay.render.plain import render_plain

        return render_plain(document, width=terminal_width())
    return render_document(document)
