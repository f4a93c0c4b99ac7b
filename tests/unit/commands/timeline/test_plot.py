"""plot: every kind of picture, deterministic output, and an SVG's contents."""

from __future__ import annotations

import struct
import sys
import warnings
from typing import Any

import pytest

from memreplay.commands.timeline.result import TimelineReport
from memreplay.errors import MissingExtraError
from tests.build import START_US, SnapshotBuilder
from tests.unit.commands.timeline.timelines import MIB, made, recording


def drawn(report: TimelineReport, fmt: str = "svg", **options: bool) -> bytes:
    pytest.importorskip("matplotlib")
    from memreplay.commands.timeline.plot import render_timeline_plot

    with warnings.catch_warnings():
        # Matplotlib warns about dependencies that are newer than itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        return render_timeline_plot(report, fmt, **options)


def odd_names() -> SnapshotBuilder:
    builder = SnapshotBuilder()
    frames = [("_private $x^2$ 训练", "/home/$USER/\x1b[1m.py", 3)]
    for i in range(9):
        builder.alloc(512 * (i + 1), 5, frames=frames, time_us=START_US + i)
    builder.annotation("$\\frac{1}{2 训练", "START", START_US)
    return builder


KINDS = [
    made(points=50),
    made(points=50, measure=["requested", "held", "reserved"]),
    made(points=50, by="stack", x="event"),
    made(points=1, by="pool", measure=["reserved", "requested"]),
    made(SnapshotBuilder(times=False).alloc(512, 5)),
    made(odd_names(), by="stack"),
    made(SnapshotBuilder(devices=0)),
]


@pytest.mark.slow
@pytest.mark.parametrize("report", KINDS)
@pytest.mark.parametrize("fmt", ["png", "svg"])
def test_output_is_deterministic(report: TimelineReport, fmt: str) -> None:
    first = drawn(report, fmt)
    assert first == drawn(report, fmt)
    assert first.startswith(b"\x89PNG" if fmt == "png" else b"<?xml")
    assert b"20" + b"26-" not in first  # no creation date


@pytest.mark.slow
def test_size_depends_on_the_number_of_charts() -> None:
    stacked = made(points=9, measure=["held"], by="pool")
    one, two = (
        struct.unpack(">II", drawn(report, "png")[16:24]) for report in (stacked, made(points=9))
    )
    assert one == two  # two devices each
    (width, height) = struct.unpack(
        ">II", drawn(made(SnapshotBuilder().alloc(512, 9)), "png")[16:24]
    )
    assert (width, 2 * height) == one


@pytest.mark.slow
def test_utc_axis_and_many_marks_are_drawn() -> None:
    builder = SnapshotBuilder()
    for i in range(700):
        builder.alloc(512 * (i + 1), 5, time_us=START_US + 10 * i)
        builder.oom(9, time_us=START_US + 10 * i + 1)
        builder.annotation(f"name {i}", "START", START_US + 10 * i)
        builder.annotation(f"name {i}", "END", START_US + 10 * i + 5)
    assert drawn(made(builder), absolute=True) != drawn(made(builder))


def shapes(report: TimelineReport, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the axes of the picture of a report."""
    from matplotlib.figure import Figure

    kept: list[Any] = []
    save = Figure.savefig

    def saved(figure: Figure, *args: Any, **options: Any) -> None:
        kept.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", saved)
    drawn(report)
    (plot,) = kept[0].axes
    return plot


def test_buckets_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    one = made(recording(1), points=40)
    plot = shapes(one, monkeypatch)
    series = one.devices[0]
    line = plot.lines[0]
    assert list(line.get_ydata())[::2] == series.buckets.max_bytes
    assert list(line.get_ydata())[1::2] == series.buckets.max_bytes
    starts = [(at or 0) - (series.start_us or 0) for at in series.buckets.time_us]
    assert list(line.get_xdata())[::2] == starts
    assert plot.get_xlim() == (0, 1_990_001)
    legend = plot.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["out of memory"]
    assert [text.get_text() for text in plot.texts] == ["step 1", "step 2"]


def test_layers_are_stacked(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    one = made(recording(1), points=40, by="file", top=1, measure=["requested"])
    plot = shapes(one, monkeypatch)
    series = one.devices[0]
    (layer,) = series.layers
    spans = [area.get_paths()[0].vertices[:, 1] for area in plot.collections]
    assert [max(span) for span in spans] == [max(layer.bytes), series.peak_bytes]
    assert max(series.rest) < series.peak_bytes
    ticks = [label.get_text() for label in plot.get_yticklabels()]
    assert ticks == ["0 B", "100 MiB", "200 MiB", "300 MiB", "400 MiB"]
    assert list(plot.get_yticks()) == [n * 100 * MIB for n in range(5)]
    legend = [text.get_text() for text in plot.get_legend().get_texts()]
    assert legend == ["out of memory", "all else", "/home/ada/model.py"]


def test_equal_measures_are_all_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    plot = shapes(made(recording(1), points=40, measure=["requested", "held"]), monkeypatch)
    below, above = plot.lines[:2]
    assert list(below.get_ydata()) == list(above.get_ydata())
    assert below.get_linewidth() > above.get_linewidth() > 1
    assert len(plot.collections) >= 2  # each measure has an area from minimum to maximum


def test_names_that_do_not_fit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    builder = recording(1)
    builder.annotation("a short while", "START", START_US + 1_900_000)
    builder.annotation("a short while", "END", START_US + 1_980_000)
    plot = shapes(made(builder, start=3, stop=79), monkeypatch)
    assert [text.get_text() for text in plot.texts] == ["step 1", "step 2"]
    assert plot.texts[0].xy[0] == 0  # started before


def test_picture_needs_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    from memreplay.commands.timeline.plot import render_timeline_plot

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"\(the extra 'plot'\)"):
        render_timeline_plot(made(), "png")
