"""`memreplay timeline`: measures over events, as a picture or as numbers."""

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
from memreplay.errors import UsageError
from memreplay.texts import clean_lines
from memreplay.width import terminal_width

if TYPE_CHECKING:
    from memreplay.commands.timeline.result import TimelineReport

PICTURES = ("png", "svg")


class ShownTimeline(Options, frozen=True):
    """A picture in characters or for a page, or numbers."""

    format: Annotated[
        Literal["text", "csv", "json", "png", "svg"],
        Opt(
            "A picture in characters, numbers (memreplay help timeline), or a picture for a page.",
            "NAME",
            brief="text, csv, json, or a picture: png, svg.",
        ),
    ] = "text"
    absolute: Annotated[
        bool,
        Opt("Show points in time (UTC) instead of times since the first event.", group="Options"),
    ] = False


@as_command(
    "timeline",
    examples=(
        "memreplay timeline snap.pkl --by file --top 5",
        "memreplay timeline snap.pkl --measure requested,reserved --x event",
        "memreplay timeline snap.pkl --by stack --format png -o timeline.png",
        "memreplay timeline snap.pkl --points 5000 --format csv -o timeline.csv",
    ),
    without=("measure",),
    words={
        "by": "Stack the groups that hold most at any time: by stack, file, category, … as in"
        " memreplay peak.",
        "top": "How many groups to show; 0 for all.",
    },
    screen=True,
)
def command(
    file: File,
    options: TimelineOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownTimeline,
    output: Output,
) -> int:
    """Draws the memory of each device in FILE over time or events. Every spike shows; annotations
    and out-of-memory events are marked. --by draws layers by who held the memory.
    """
    if shown.absolute and options.x == "event":
        raise UsageError("--absolute shows points in time, but --x event shows no times")
    picture = shown.format in PICTURES
    if output.output is not None or picture:
        output.check([file], picture=picture)
    if picture:
        from memreplay.render.plot import check_plot  # late: it loads matplotlib

        check_plot()
    width = terminal_width()
    if options.points is None and shown.format == "text":
        options = replace(options, points=text_points(width))
    if shown.absolute:
        options = replace(options, x="time")
    selection = replace(selection, fold=shown.format not in ("json", "csv"))

    def work() -> TimelineReport:
        with opened(file, reading) as snapshot:
            return timeline_report(snapshot, selection, options)

    report, exit_code = attempt(file, work)
    if report is not None:
        _write(report, shown, width, output)
        exit_code = trust_code(report, selection.strict)
    return exit_code


def _write(report: TimelineReport, shown: ShownTimeline, width: int, output: Output) -> None:
    if shown.format in PICTURES:
        from memreplay.commands.timeline.plot import render_timeline_plot  # late: matplotlib

        picture = render_timeline_plot(report, shown.format, absolute=shown.absolute)
    else:
        text = _text(report, shown, width, plain=output.is_file)
        if not output.is_file:
            write(clean_lines(text) if shown.format == "csv" and sys.stdout.isatty() else text)
            return
        picture = text.encode("utf-8", "replace") + b"\n"
    with byte_output(output.output) as out:
        out.write(picture)


def _text(report: TimelineReport, shown: ShownTimeline, width: int, *, plain: bool) -> str:
    if shown.format == "json":
        from memreplay.render.record_json import render_json  # late: text has no use for it

        return render_json(report, indent=None)
    if shown.format == "csv":
        from memreplay.commands.timeline.csv import render_timeline_csv  # late, likewise

        return render_timeline_csv(report)
    document = timeline_document(report, width, absolute=shown.absolute)
    if plain:
        from memreplay.render.plain import render_plain

        return render_plain(document, width=width)
    return render_document(document)
