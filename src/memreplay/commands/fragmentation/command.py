"""`memreplay fragmentation`: reserved but unused memory, what blocks it, and which code requested
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.fragmentation.find import FragmentationOptions, fragmentation_report
from memreplay.commands.fragmentation.result import FragmentationReport
from memreplay.commands.fragmentation.segments_find import segments_report
from memreplay.commands.fragmentation.segments_result import SegmentsReport
from memreplay.commands.fragmentation.segments_text import segments_document
from memreplay.commands.fragmentation.text import fragmentation_document
from memreplay.commands.shared.declaring import File, as_command
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.helping import OWN
from memreplay.commands.shared.output import Output, byte_output
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.showing import Shown, ShownFrames, folded, present
from memreplay.commands.shared.source import Reading, opened
from memreplay.declared import Opt
from memreplay.errors import UsageError
from memreplay.width import terminal_width

PICTURES = ("png", "svg")
# Total width of the map's columns other than the bar, and the minimum and maximum width of the bar.
_BESIDE, _NARROWEST, _WIDEST = 52, 24, 100


class ShownFragmentation(ShownFrames, frozen=True):
    """Output options: text, JSON or an image, and what to show of the segments."""

    map: Annotated[
        bool,
        Opt(
            "Show the segments at that moment, most free memory first (JSON includes their"
            " blocks).",
            group=OWN,
            brief="Show the segments, most free memory first.",
        ),
    ] = False
    segments: Annotated[
        bool,
        Opt(
            "Instead, show when memory was reserved and released, and by which code.",
            group=OWN,
            brief="Show when memory was reserved, and by which code.",
        ),
    ] = False
    list: Annotated[
        bool,
        Opt(
            "With --segments: list the --top largest changes one by one.",
            needs="segments",
            group=OWN,
            brief="With --segments: list the largest changes.",
        ),
    ] = False
    format: Annotated[
        Literal["text", "json", "png", "svg"],
        Opt(
            "Output format: text, json, or a picture of the segments (png, svg; needs"
            " the extra 'plot').",
            "NAME",
            group="Output",
            brief="text, json, or a picture of the segments: png, svg.",
        ),
    ] = "text"  # type: ignore[assignment]
    output: Output = Output()


@as_command(
    "fragmentation",
    examples=(
        "memreplay fragmentation snap.pkl",
        "memreplay fragmentation snap.pkl --at peak --map",
        "memreplay fragmentation snap.pkl --segments --top 50",
        "memreplay fragmentation snap.pkl --at end --by file --top 5",
        "memreplay fragmentation snap.pkl --format png -o map.png",
        "memreplay fragmentation snap.pkl --json | jq '.devices[].pinned_bytes'",
        "memreplay fragmentation snap.pkl --segments --json | jq '.devices[0].reserved_by[0]'",
    ),
    answers=fragmentation_report,
    words={"by": "How to group the blocks that keep free memory reserved: stack, file, …"},
)
def command(
    file: File,
    options: FragmentationOptions,
    selection: Selection,
    reading: Reading,
    shown: ShownFragmentation,
) -> int:
    """Show how much reserved memory was unused over the recording. For one moment (--at; by default
    the failed request, or else the peak of reserved memory), show where free memory lies, what
    empty_cache() would release, and which live blocks keep the rest reserved.
    """
    picture, output = shown.format in PICTURES, shown.output
    at_moment = shown.map or picture or options.at is not None or selection.by is not None
    if shown.segments and at_moment:
        raise UsageError("--segments covers the whole recording; leave out --map, --at and --by")
    if picture:
        output.check([file], picture=True)
    elif output.output is not None:
        raise UsageError("-o writes pictures; give --format png or svg, or use > FILE")
    if shown.segments:
        return _over_time(file, selection, reading, shown)
    asked = replace(
        options,
        bars=_cells() if shown.map and shown.format == "text" else 0,
        blocks=picture or (shown.map and shown.format == "json"),
    )

    def work() -> FragmentationReport:
        with opened(file, reading) as snapshot:
            return fragmentation_report(snapshot, folded(selection, shown), asked)

    if picture:
        return _draw(file, work, shown.format, output, strict=selection.strict)
    # A report with a map has many blocks. With indentation, each would take many lines.
    indent = None if shown.map else 2
    return present(
        file, work, shown, fragmentation_document, strict=selection.strict, indent=indent
    )


def _over_time(
    file: str,
    selection: Selection,
    reading: Reading,
    shown: ShownFragmentation,
) -> int:
    """Show which code made the allocator reserve memory, and when."""

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
        listed=shown.list,
    )


def _draw(
    file: str,
    work: Callable[[], FragmentationReport],
    form: str,
    output: Output,
    *,
    strict: bool,
) -> int:
    """Write an image of the segments."""
    from memreplay.commands.fragmentation.plot import (  # imported late: needs matplotlib
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
