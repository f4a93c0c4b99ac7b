"""`memreplay fragmentation`: what is reserved and not in use, what blocks it, who asked for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Filters, Selection
from memreplay.commands.fragmentation.find import FragmentationOptions, fragmentation_report
from memreplay.commands.fragmentation.result import FragmentationReport
from memreplay.commands.fragmentation.segments_find import segments_report
from memreplay.commands.fragmentation.segments_result import SegmentsReport
from memreplay.commands.fragmentation.segments_text import segments_document
from memreplay.commands.fragmentation.text import fragmentation_document
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.output import Output, byte_output
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.showing import Shown, ShownFrames, folded, present
from memreplay.commands.shared.source import Reading, opened
from memreplay.declared import Opt, Options
from memreplay.errors import UsageError
from memreplay.width import terminal_width

PICTURES = ("png", "svg")
# The columns of the map beside the bar, and how wide a bar is worth looking at.
_BESIDE, _NARROWEST, _WIDEST = 52, 24, 100


class Segments(Options, frozen=True):
    """What of the segments is shown."""

    map: Annotated[
        bool,
        Opt(
            "Show the segments of the moment, the most free first (in JSON with their blocks).",
            brief="Show the segments, the most free first.",
        ),
    ] = False
    segments: Annotated[
        bool,
        Opt(
            "Show what was reserved when instead, and which code asked for it or gave it back.",
            brief="Show what was reserved when, and who asked for it.",
        ),
    ] = False
    list: Annotated[
        bool,
        Opt(
            "With --segments: list the --top largest changes one by one.",
            brief="With --segments: list the largest changes.",
        ),
    ] = False


class ShownFragmentation(ShownFrames, frozen=True):
    """Text, JSON or a picture."""

    format: Annotated[
        Literal["text", "json", "png", "svg"],
        Opt(
            "For people, for programs (memreplay help json), or a picture of the segments (needs"
            " memreplay[plot]).",
            "NAME",
            group="Output",
            brief="text, json, or a picture of the segments: png, svg.",
        ),
    ] = "text"  # type: ignore[assignment]


@as_command(
    "fragmentation",
    examples=(
        "memreplay fragmentation snap.pkl",
        "memreplay fragmentation snap.pkl --at peak --map",
        "memreplay fragmentation snap.pkl --segments --top 50",
        "memreplay fragmentation snap.pkl --at end --by file --top 5",
        "memreplay fragmentation snap.pkl --format png -o map.png",
        "memreplay fragmentation snap.pkl --json | jq '.devices[].pinned_bytes'",
        "memreplay fragmentation snap.pkl --segments --json | jq '.devices[0].taken[0]'",
    ),
    without=("measure", "pool", "stream", *Filters.__struct_fields__),
    words={"by": "What to group the blocks by that keep free memory reserved: stack, file, …"},
)
def command(
    file: File,
    options: FragmentationOptions,
    segments: Segments,
    selection: Selection,
    reading: Reading,
    shown: ShownFragmentation,
    output: Output,
) -> int:
    """Shows how much reserved memory was unused over the recording; and for a moment (--at; by
    default where a request failed, else where most was reserved) where free memory lies, what
    empty_cache() would give back, and which live blocks keep the rest reserved.
    """
    picture = shown.format in PICTURES
    if segments.segments:
        if segments.map or picture or options.at is not None or selection.by is not None:
            raise UsageError("--segments shows the whole recording: leave out --map, --at and --by")
    elif segments.list:
        raise UsageError("--list is for --segments")
    if picture:
        output.check([file], picture=True)
    elif output.output is not None:
        raise UsageError("-o is for pictures: give --format png or svg, or use > FILE")
    if segments.segments:
        return _over_time(file, segments, selection, reading, shown)
    asked = replace(
        options,
        bars=_cells() if segments.map and shown.format == "text" else 0,
        blocks=picture or (segments.map and shown.format == "json"),
    )

    def work() -> FragmentationReport:
        with opened(file, reading) as snapshot:
            return fragmentation_report(snapshot, folded(selection, shown), asked)

    if picture:
        return _draw(file, work, shown.format, output, strict=selection.strict)
    # One with a map has many blocks, which would take many lines each.
    indent = None if segments.map else 2
    return present(
        file, work, shown, fragmentation_document, strict=selection.strict, indent=indent
    )


def _over_time(
    file: str,
    segments: Segments,
    selection: Selection,
    reading: Reading,
    shown: ShownFragmentation,
) -> int:
    """Who made the allocator reserve memory, and when."""

    def work() -> SegmentsReport:
        with opened(file, reading) as snapshot:
            return segments_report(snapshot, selection)

    return present(
        file,
        work,
        Shown(format="json" if shown.format == "json" else "text"),
        segments_document,
        strict=selection.strict,
        indent=None,
        top=selection.top,
        listed=segments.list,
    )


def _draw(
    file: str,
    work: Callable[[], FragmentationReport],
    form: str,
    output: Output,
    *,
    strict: bool,
) -> int:
    """Write a picture of the segments."""
    from memreplay.commands.fragmentation.plot import (  # late: matplotlib
        render_fragmentation_plot,
    )
    from memreplay.render.plot import check_plot

    check_plot()
    report, exit_code = attempt(file, work)
    if report is not None:
        drawn = render_fragmentation_plot(report, form)
        with byte_output(output.output) as out:
            out.write(drawn)
        exit_code = trust_code(report, strict)
    return exit_code


def _cells() -> int:
    return max(_NARROWEST, min(_WIDEST, terminal_width() - _BESIDE))
