"""Draw the segments at a moment, with a row per segment and blocks coloured by call site."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from memreplay.render.fit import cut_left
from memreplay.render.mapped import part_text
from memreplay.render.plot import check_plot
from memreplay.render.units import count, counted, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.commands.fragmentation.result import (
        DeviceFragmentation,
        FragmentationReport,
        MappedSegment,
    )

_MOST_ROWS = 120  # maximum number of segments; with more, they'd be too thin to see
_COLOURS = (0, 1, 2, 4, 5, 6, 8, 9)  # colours of the largest groups: tab10 without grey and red
_OTHERS, _PENDING = "#9a9a9a", "#d62728"
_LABEL = 60
Box = tuple[float, float, float, float]  # left, bottom, width, height


def render_fragmentation_plot(report: FragmentationReport, fmt: str) -> bytes:
    """Return the image as PNG or SVG, with a panel per device."""
    check_plot()
    import warnings
    from io import BytesIO

    import matplotlib as mpl
    from matplotlib.figure import Figure

    devices = [device for device in report.devices if device.map]
    rows = [min(len(device.map), _MOST_ROWS) for device in devices]
    heights = [0.18 * max(row, 8) + 1.2 for row in rows] or [1.5]
    # Don't parse text as math, and make the output deterministic.
    chosen = mpl.rc_context({"text.parse_math": False, "svg.hashsalt": "memreplay"})
    with chosen, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # matplotlib warns if the font lacks a glyph
        figure = Figure(figsize=(14, sum(heights) + 0.6), layout="constrained")
        figure.suptitle(clean(report.file))
        if devices:
            panels = figure.subplots(len(devices), squeeze=False, height_ratios=heights)
            for panel, device in zip(panels[:, 0], devices, strict=True):
                _draw(panel, device)
        else:
            figure.text(0.5, 0.4, "no segments at this moment", ha="center")
        out = BytesIO()
        figure.savefig(out, format=fmt, dpi=110, metadata={"Date": None} if fmt == "svg" else None)
    return out.getvalue()


def _draw(panel: Any, device: DeviceFragmentation) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    shown = sorted(device.map, key=lambda one: -one.reserved_bytes)[:_MOST_ROWS]
    colours = _colours(shown)
    boxes: dict[tuple[str, bool], list[Box]] = {}
    frames: list[Box] = []
    for row, segment in enumerate(shown):
        frames.append((0, row - 0.4, segment.reserved_bytes, 0.8))
        for block in segment.blocks:
            if block.state == "free":
                continue
            colour = colours.get(block.label, _OTHERS)
            box = (block.address - segment.address, row - 0.4, block.bytes, 0.8)
            boxes.setdefault((colour, block.state == "pending"), []).append(box)
    _add(panel, PatchCollection([_rectangle(Rectangle, one) for one in frames]), "white", False)
    for (colour, pending), found in boxes.items():
        patches = [_rectangle(Rectangle, one) for one in found]
        _add(panel, PatchCollection(patches), colour, pending)
    widest = max(segment.reserved_bytes for segment in shown)
    panel.set_xlim(0, widest * 1.01)
    # Place six to eleven ticks at multiples of a power of two.
    panel.xaxis.set_major_locator(MultipleLocator(1 << max((widest // 6).bit_length() - 1, 0)))
    panel.set_ylim(len(shown) - 0.5, -0.5)
    panel.set_yticks(range(len(shown)), [_name(segment) for segment in shown], fontsize=7)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda at, _: size(int(at))))
    panel.set_title(_title(device, len(shown)), fontsize=10, loc="left")
    keys = [Patch(fc=colour, ec="#404040", lw=0.3) for colour in colours.values()]
    names = [cut_left(clean(label), _LABEL) for label in colours]
    keys += [
        Patch(fc=_OTHERS, ec="#404040", lw=0.3),
        Patch(fc="none", ec=_PENDING, hatch="////"),
        Patch(fc="white", ec="#404040", lw=0.3),
    ]
    names += ["others", "waits for a stream", "free"]
    beside = {"loc": "upper left", "bbox_to_anchor": (1.005, 1)}
    panel.legend(keys, names, fontsize=7, title="allocated at", **beside)


def _rectangle(make: Any, box: Box) -> Any:
    left, bottom, width, height = box
    return make((left, bottom), width, height)


def _add(panel: Any, patches: Any, colour: str, pending: bool) -> None:
    patches.set_facecolor(colour)
    patches.set_edgecolor(_PENDING if pending else "#404040")
    patches.set_linewidth(0.3)
    if pending:
        patches.set_hatch("////")
    panel.add_collection(patches)


def _colours(shown: list[MappedSegment]) -> dict[str, str]:
    """Assign colours to the largest groups."""
    held: Counter[str] = Counter()
    for segment in shown:
        for block in segment.blocks:
            if block.state != "free":
                held[block.label] += block.bytes
    most = sorted(held, key=lambda label: (-held[label], label))
    import matplotlib as mpl

    table = mpl.colormaps["tab10"]
    return {label: mpl.colors.to_hex(table(i)) for i, label in zip(_COLOURS, most, strict=False)}


def _name(segment: MappedSegment) -> str:
    where = part_text(segment.pool, segment.stream, segment.kind)
    return f"{where}  {size(segment.reserved_bytes)}"


def _title(device: DeviceFragmentation, shown: int) -> str:
    when = "the final state"
    if device.events:
        when = f"event {count(device.event_index)}"
        when = "the start" if device.event_index < device.first_event else when
    title = f"device {device.device} at {when}: {size(device.reserved_bytes)} reserved,"
    title += f" {size(device.free_bytes)} free"
    if shown < device.map_total:
        title += f"; the {count(shown)} largest of {counted(device.map_total, 'segment')}"
    return title
