"""`memreplay timeline`: measures over events, as a picture or as numbers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.by import ByType
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.filtering import filter_options
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    config_options,
    file_argument,
    from_zero,
    measure_names,
    output_options,
    part_options,
    points_from,
    reading_options,
    strict_option,
)
from memreplay.commands.shared.output import (
    byte_output,
    check_output,
    render_document,
    terminal_width,
    write,
)
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError
from memreplay.texts import clean_lines

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.timeline.result import Axis, TimelineReport
    from memreplay.snapshot.model import MeasureName

PICTURES = ("png", "svg")
POINTS = 1_000


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    measures: tuple[MeasureName, ...]
    x: Axis | None
    absolute: bool
    points: int | None
    fmt: str
    output: str | None
    force: bool


@click.command(
    "timeline",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay timeline snap.pkl
  memreplay timeline snap.pkl --measure requested,reserved --x event
  memreplay timeline snap.pkl --by file --top 5
  memreplay timeline snap.pkl --by stack --format png -o timeline.png
  memreplay timeline snap.pkl --points 5000 --format csv -o timeline.csv

{STRICT_EXIT_CODES}""",
)
@file_argument
@click.option(
    "--measure",
    "measures",
    multiple=True,
    callback=measure_names,
    metavar="NAME[,NAME]",
    help="Which bytes: requested (default), held, active, allocated, reserved; several in one"
    " picture.",
)
@click.option(
    "--x",
    type=click.Choice(["event", "time"]),
    help="The horizontal axis: time (the default where the file has times) or events (the default"
    " where more than half of the time holds under 5 % of the events).",
)
@click.option(
    "--absolute",
    is_flag=True,
    help="Show points in time (UTC) instead of times since the first event.",
)
@click.option(
    "--by",
    type=ByType(),
    metavar="WAY[,WAY...]",
    help="Stack the groups that hold most at any time, grouped as in `memreplay peak`: stack,"
    " frame, file, category, annotation, stream, pool, size …; combine several as"
    " category,file.",
)
@click.option(
    "--top",
    type=int,
    callback=from_zero,
    metavar="N",
    default=8,
    show_default=True,
    help="How many groups to show; 0 for all.",
)
@click.option(
    "--points",
    type=int,
    callback=points_from(1),
    metavar="N",
    help="Cut events or time into N buckets, each with its minimum and maximum (default: as many as"
    f" fit the width for text, else {POINTS}).",
)
@part_options
@filter_options
@config_options
@reading_options
@strict_option
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["text", "csv", "json", *PICTURES]),
    default="text",
    show_default=True,
    help="A picture in characters, numbers (memreplay help timeline), or a picture for a page.",
)
@output_options
@selects
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """Memory over time, as a picture.

    Draws the memory of each device in FILE ('-' for standard input) over time or events. Every
    spike shows; annotations and out-of-memory events are marked. --by draws layers by who held the
    memory.
    """
    if asked.absolute and asked.x == "event":
        raise UsageError("--absolute shows points in time, but --x event shows no times")
    if asked.output is not None or asked.fmt in PICTURES:
        check_output(asked.output, force=asked.force, picture=asked.fmt in PICTURES, read=[file])
    if asked.fmt in PICTURES:
        from memreplay.render.plot import check_plot

        check_plot()
    width = terminal_width()
    points = asked.points or POINTS
    if asked.points is None and asked.fmt == "text":
        from memreplay.commands.timeline.text import text_points

        points = text_points(width)

    def work() -> TimelineReport:
        from memreplay.commands.timeline.find import timeline_report

        with opened(file, reading) as snapshot:
            return timeline_report(
                snapshot,
                selection,
                measures=asked.measures or ("requested",),
                x="time" if asked.absolute else asked.x,
                points=points,
                fold=asked.fmt not in ("json", "csv"),
            )

    report, exit_code = attempt(file, work)
    if report is not None:
        _write(report, asked.fmt, asked.absolute, width, asked.output)
        exit_code = trust_code(report, selection.strict)
    return exit_code


def _write(
    report: TimelineReport, fmt: str, absolute: bool, width: int, output: str | None
) -> None:
    if fmt in PICTURES:
        from memreplay.commands.timeline.plot import render_timeline_plot

        picture = render_timeline_plot(report, fmt, absolute=absolute)
    else:
        text = _text(report, fmt, absolute, width, plain=output not in (None, "-"))
        if output in (None, "-"):
            if fmt == "csv" and sys.stdout.isatty():
                text = clean_lines(text)
            write(text)
            return
        picture = text.encode("utf-8", "replace") + b"\n"
    with byte_output(output) as out:
        out.write(picture)


def _text(report: TimelineReport, fmt: str, absolute: bool, width: int, *, plain: bool) -> str:
    if fmt == "json":
        from memreplay.render.record_json import render_json

        return render_json(report, indent=None)
    if fmt == "csv":
        from memreplay.commands.timeline.csv import render_timeline_csv

        return render_timeline_csv(report)
    from memreplay.commands.timeline.text import timeline_document

    document = timeline_document(report, width, absolute=absolute)
    if plain:
        from memreplay.render.plain import render_plain

        return render_plain(document, width=width)
    return render_document(document)
