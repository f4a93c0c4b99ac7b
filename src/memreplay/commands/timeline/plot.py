"""Draw measures over events as deterministic PNG or SVG, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memreplay.commands.timeline.axis import Axis
from memreplay.commands.timeline.result import Marks, Series, TimelineReport
from memreplay.render.axes import Tick, byte_ticks
from memreplay.render.document import Place
from memreplay.render.fit import cell_width, cut_left, cut_right, fit_place
from memreplay.render.holders import group_row
from memreplay.render.plot import check_plot
from memreplay.render.units import size
from memreplay.snapshot.model import By, Group
from memreplay.texts import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which suits colour blindness, then lighter shades.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
_PALER = ("#7FB8D8", "#F2CF7F", "#7FCEB9", "#E5BCD3", "#EAAE7F", "#AAD9F4", "#F7F1A0")
_REST = "#BBBBBB"
_OOM = "#B00020"
_WIDTH, _HEIGHT, _DPI = 11.0, 3.6, 120
_MOST_LEGEND = 15  # number of lines that fit into the plot's height
_MOST_NAMED = 24  # maximum number of labelled annotations; more would be unreadable
_LEAST_NAME = 12  # minimum number of characters; shorter names aren't useful
_MOST_MARKS = 500
_SPAN_COLOURS = ("#F2F2F2", "#E2E8EE")
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.unicode_minus": False,
    "svg.hashsalt": "memreplay",
    "text.usetex": False,
    "text.parse_math": False,  # because names may contain dollar signs
}


def render_timeline_plot(report: TimelineReport, fmt: str, *, absolute: bool = False) -> bytes:
    """Return an image with a plot per device (with layers: per measure), one below the other, with
    a common x axis.

    `fmt` is "png" or "svg". Raises MissingExtraError without matplotlib.
    """
    check_plot()
    import warnings
    from io import BytesIO

    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels = _panels(report)
    axis = Axis.of(report, absolute)
    marks = {one.device: one for one in report.marks}
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # matplotlib warns if the font lacks a glyph
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(_WIDTH, _HEIGHT * max(len(panels), 1)), layout="constrained")
        figure.suptitle(
            cut_left(clean(report.file), 110), x=0.01, horizontalalignment="left", fontsize=10
        )
        if panels:
            _draw(figure, panels, marks, report, axis)
        else:
            figure.text(0.5, 0.5, "neither events nor segments", horizontalalignment="center")
        out = BytesIO()
        # Dates and versions would make the output differ between runs.
        metadata = {"Software": None} if fmt == "png" else {"Date": None, "Creator": "memreplay"}
        figure.savefig(out, format=fmt, dpi=_DPI, metadata=metadata)
    return out.getvalue()


def _panels(report: TimelineReport) -> list[list[Series]]:
    """Return the series of each plot: all of a device's measures, or with layers a single one."""
    if report.by is not None:
        return [[series] for series in report.devices]
    devices = dict.fromkeys(series.device for series in report.devices)
    return [[one for one in report.devices if one.device == device] for device in devices]


def _draw(
    figure: Figure,
    panels: list[list[Series]],
    marks: dict[int, Marks],
    report: TimelineReport,
    axis: Axis,
) -> None:
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)
    for plot, found in zip(grid[:, 0], panels, strict=True):
        low = min(0, *(one.lowest_bytes for one in found))
        high = max(low + 1, *(one.peak_bytes for one in found))
        _spans(plot, marks[found[0].device], found[0], axis)
        if report.by is not None:
            _stack(plot, found[0], axis, report.by)
        elif len(found) == 1:
            _band(plot, found[0], axis)
        else:
            for number, (one, colour) in enumerate(zip(found, _COLOURS, strict=False)):
                # Each line is wider than those drawn on top of it, so that lines with equal values
                # stay visible.
                _line(plot, one, axis, colour, 0.5 + 0.7 * (len(found) - number))
        _ooms(plot, marks[found[0].device], found[0], axis)
        plot.set_title(_title(found))
        _ticks(plot.yaxis, byte_ticks(low, high, 6))
        plot.set_ylim(low, low + (high - low) * 1.06)
        plot.set_xlim(axis.start, axis.stop)
        plot.grid(axis="y", color="#DDDDDD", linewidth=0.6)
        plot.set_axisbelow(True)
        _legend(plot)
    _ticks(grid[-1, 0].xaxis, axis.ticks(8))
    grid[-1, 0].set_xlabel(axis.name())


def _title(found: list[Series]) -> str:
    one = found[0]
    if len(found) > 1:
        peaks = ", ".join(f"{series.measure} {size(series.peak_bytes)}" for series in found)
        return f"device {one.device}: peaks {peaks}"
    exactness = "" if one.exactness == "exact" else " (estimated)"
    return f"device {one.device}: {one.measure}, peak {size(one.peak_bytes)}{exactness}"


def _ticks(side: Any, ticks: list[Tick]) -> None:
    side.set_ticks([tick.at for tick in ticks], [tick.label for tick in ticks])


def _steps(edges: list[int], values: list[int]) -> tuple[list[int], list[int]]:
    """Return the corners of a step line that keeps each value until the next edge."""
    across = [edge for edge in edges for _ in range(2)][1:-1]
    return across, [value for value in values for _ in range(2)]


def _band(plot: Axes, one: Series, axis: Axis) -> None:
    """Fill the area up to the minima, more lightly up to the maxima, and draw a line on top."""
    edges = axis.edges(one)
    x, high = _steps(edges, one.buckets.max_bytes)
    _, low = _steps(edges, one.buckets.min_bytes)
    plot.fill_between(x, high, color=_COLOURS[0], alpha=0.30, linewidth=0)
    plot.fill_between(x, low, color=_COLOURS[0], alpha=0.35, linewidth=0)
    plot.plot(x, high, color=_COLOURS[0], linewidth=0.9)
    at = one.peak_event if axis.kind == "event" else (one.peak_us or 0) - axis.zero(one)
    plot.plot([max(at, axis.start)], [one.peak_bytes], ".", color=_COLOURS[0], markersize=5)


def _line(plot: Axes, one: Series, axis: Axis, colour: str, width: float) -> None:
    """Draw a line along the maxima, over a band down to the minima."""
    edges = axis.edges(one)
    x, high = _steps(edges, one.buckets.max_bytes)
    _, low = _steps(edges, one.buckets.min_bytes)
    plot.fill_between(x, low, high, color=colour, alpha=0.30, linewidth=0)
    plot.plot(x, high, color=colour, linewidth=width, label=one.measure)


def _stack(plot: Axes, one: Series, axis: Axis, by: By) -> None:
    """Draw the layers, with the largest at the bottom and the rest on top."""
    edges = axis.edges(one)
    below = [0] * len(one.buckets)
    colours = _COLOURS + _PALER
    named = [
        (layer.bytes, _name(layer.group, by), colours[i % len(colours)])
        for i, layer in enumerate(one.layers)
    ]
    if any(one.rest):
        named.append((list(one.rest), "all else", _REST))
    for number, (values, name, colour) in enumerate(named):
        above = [a + b for a, b in zip(below, values, strict=True)]
        x, bottom = _steps(edges, below)
        _, top = _steps(edges, above)
        label = name if number < _MOST_LEGEND or number == len(named) - 1 else None
        plot.fill_between(x, bottom, top, color=colour, linewidth=0, label=label)
        below = above


def _name(group: Group, by: By) -> str:
    """Return the report's label for a group, shortened to fit into a legend. matplotlib hides
    labels that start with `_`.
    """
    words = group_row(group, by, all_frames=False).cells[-1]
    name = fit_place(words, 52) if isinstance(words, Place) else cut_right(clean(group.label), 52)
    return name if not name.startswith("_") else f" {name}"


def _spans(plot: Axes, marks: Marks, one: Series, axis: Axis) -> None:
    """Draw top-level annotations as bands, with labels if there's room."""
    until = axis.start - 1
    outer = []
    for span in marks.annotations:
        begin, end = axis.extent(span, one)
        if end > until:
            outer.append((span.name, max(begin, axis.start), min(end, axis.stop)))
            until = end
    if len(outer) > _MOST_MARKS:
        longest = sorted(outer, key=lambda span: span[1] - span[2])[:_MOST_MARKS]
        outer = sorted(longest, key=lambda span: span[1])
    for i, (name, begin, end) in enumerate(outer):
        plot.axvspan(begin, end, color=_SPAN_COLOURS[i % 2], linewidth=0, zorder=0)
        room = int(110 * (end - begin) / max(axis.stop - axis.start, 1))
        label = clean(name)
        if len(outer) <= _MOST_NAMED and room >= min(cell_width(label), _LEAST_NAME):
            plot.annotate(
                cut_right(label, room),
                (begin, 1),
                xycoords=("data", "axes fraction"),
                xytext=(3, -3),
                textcoords="offset points",
                verticalalignment="top",
                fontsize=7,
                color="#555555",
                annotation_clip=True,
            )


def _ooms(plot: Axes, marks: Marks, one: Series, axis: Axis) -> None:
    times = f" ({len(marks.ooms):,} times)" if len(marks.ooms) > 1 else ""
    for number, oom in enumerate(marks.ooms[:_MOST_MARKS]):
        label = None if number else f"out of memory{times}"
        plot.axvline(axis.at(oom, one), color=_OOM, linewidth=1, linestyle="--", label=label)


def _legend(plot: Axes) -> None:
    """Draw the legend to the right of the plot, with layers in the order in which they're
    stacked.
    """
    handles, labels = plot.get_legend_handles_labels()
    if handles:
        plot.legend(
            handles[::-1],
            labels[::-1],
            loc="upper left",
            bbox_to_anchor=(1.005, 1.0),
            frameon=False,
            fontsize=7.5,
            borderaxespad=0,
        )
