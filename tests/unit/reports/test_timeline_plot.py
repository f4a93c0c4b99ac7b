"""timeline_plot: pictures of every kind are made, the same each time; what is in an SVG."""

from __future__ import annotations

import struct
import sys
import warnings

import pytest

from memreplay.errors import MissingExtraError
from memreplay.results.timeline import TimelineReport
from tests.build import START_US, SnapshotBuilder
from tests.unit.reports.timelines import made


def drawn(report: TimelineReport, fmt: str = "svg", **options: bool) -> bytes:
    pytest.importorskip("matplotlib")
    from memreplay.reports.timeline_plot import render_timeline_plot

    with warnings.catch_warnings():
        # Its own dependencies may be newer than it knows.
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
    made(points=50, measures=["requested", "held", "reserved"]),
    made(points=50, by="stack", x="event"),
    made(points=1, by="pool", measures=["reserved", "requested"]),
    made(SnapshotBuilder(times=False).alloc(512, 5)),
    made(odd_names(), by="stack"),
    made(SnapshotBuilder(devices=0)),
]


@pytest.mark.parametrize("report", KINDS)
@pytest.mark.parametrize("fmt", ["png", "svg"])
def test_the_same_bytes_every_time(report: TimelineReport, fmt: str) -> None:
    first = drawn(report, fmt)
    assert first == drawn(report, fmt)
    assert first.startswith(b"\x89PNG" if fmt == "png" else b"<?xml")
    assert b"20" + b"26-" not in first  # no date of the drawing


def test_its_size_goes_by_the_pictures_in_it() -> None:
    stacked = made(points=9, measures=["held"], by="pool")
    one, two = (
        struct.unpack(">II", drawn(report, "png")[16:24]) for report in (stacked, made(points=9))
    )
    assert one == two  # two devices each
    (width, height) = struct.unpack(
        ">II", drawn(made(SnapshotBuilder().alloc(512, 9)), "png")[16:24]
    )
    assert (width, 2 * height) == one


def test_points_in_time_and_many_marks() -> None:
    builder = SnapshotBuilder()
    for i in range(700):
        builder.alloc(512 * (i + 1), 5, time_us=START_US + 10 * i)
        builder.oom(9, time_us=START_US + 10 * i + 1)
        builder.annotation(f"name {i}", "START", START_US + 10 * i)
        builder.annotation(f"name {i}", "END", START_US + 10 * i + 5)
    assert drawn(made(builder), absolute=True) != drawn(made(builder))


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    from memreplay.reports.timeline_plot import render_timeline_plot

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'memreplay\[plot\]'"):
        render_timeline_plot(made(), "png")
