"""text: the lines above and below the picture, and the width of everything."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.commands.timeline.find import timeline_report
from memreplay.commands.timeline.result import TimelineReport
from memreplay.commands.timeline.text import text_points, timeline_document
from memreplay.render.fit import cell_width
from memreplay.render.plain import render_plain
from memreplay.render.terminal import render_terminal
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.build import START_US, SnapshotBuilder
from tests.examples import examples
from tests.strategies import traces
from tests.unit.commands.timeline.timelines import FORWARD, LOSS, MIB, made, measured


def text(report: TimelineReport, width: int = 80, **options: bool) -> str:
    return render_plain(timeline_document(report, width, **options), width=width)


def test_measured_memory_has_a_line() -> None:
    found = " ".join(text(made(measured(MIB))).split())
    assert (
        "outside 140.0 MiB to 240.0 MiB of the card outside PyTorch's allocator, 300.0 MiB in other"
        " processes across"
    ) in found
    found = " ".join(text(made(measured(MIB, others=False))).split())
    assert (
        "40.0 MiB to 540.0 MiB of the card outside PyTorch's allocator, including other processes"
    ) in found
    assert "outside PyTorch" not in text(made())


def test_one_measure_is_drawn() -> None:
    found = text(made(points=text_points(80)))
    assert "device 0: peak 400.0 MiB requested at event 39 of 81,\n  +0.975 s" in found
    assert "measure  requested, exact" in found
    assert "bytes    start 0 B, lowest 0 B, end 0 B" in found
    assert "across   time since the first event, 2" in found
    assert "400 MiB ┤" in found
    assert "[step 1──" in found
    assert "[forw" in found
    assert "note: annotations: step 1, forward, step 2" in found
    assert "note: out of memory (▲) at event 80 (+1.990 s)" in found
    assert "device 1: peak 200.0 MiB" in found
    # The devices share an axis, so device 1's data ends in the middle of the picture.
    second = found[found.index("device 1") :]
    assert max(len(line) for line in second.splitlines() if "⣿" in line) < 55


def test_peak_reaches_the_top_row_and_the_minimum_is_visible() -> None:
    spike = SnapshotBuilder().alloc(1 << 20, 10 * MIB, time_us=START_US)
    for i in range(5_000):
        size = 900 * MIB if i == 3_333 else MIB
        spike.alloc(1 << 30, size, time_us=START_US + 2 * i + 1)
        spike.free_completed(1 << 30, size, time_us=START_US + 2 * i + 2)
    for x in ("event", "time"):
        found = text(made(spike, points=text_points(80), x=x))
        top = next(line for line in found.splitlines() if "│" in line or "┤" in line)
        drawn = top.replace("┤", "│").partition("│")[2].strip()
        assert 1 <= len(drawn) <= 2  # a bucket may span two characters
        at = top.replace("┤", "│").index(drawn[0])
        margin = top.replace("┤", "│").index("│") + 1
        place = (2 * 3_333 + 1) / 10_001 * (80 - margin)
        assert abs(at + len(drawn) / 2 - margin - place) < 1


def test_several_measures_have_a_table() -> None:
    found = text(made(measure=["requested", "held"], points=100))
    assert "device 0: requested, held\nexact            requested\nnot trustworthy  held\n" in found
    assert "line  measure         peak  at event  start  lowest  end" in found
    assert "1     requested  400.0 MiB        39    0 B     0 B  0 B\n" in found
    assert "2     held       400.0 MiB        39    0 B     0 B  0 B\n" in found


@pytest.mark.parametrize("start, shown", [(40, "start"), (39, "39")])
def test_peak_before_a_range_is_at_its_start(start: int, shown: str) -> None:
    # The maximum is reached at event 39.
    found = text(made(start=start, device=0, measure=["requested", "held"], points=100))
    assert re.search(rf"^1     requested  400.0 MiB +{shown} ", found, re.MULTILINE)


def test_layers_are_drawn_with_letters() -> None:
    found = text(made(by="file", points=100), 100)
    assert "aaaa" in found
    assert "bb" in found
    assert "a  300.0 MiB    300.0 MiB  75.0%  /home/ada/model.py" in found
    assert "b  100.0 MiB    100.0 MiB  25.0%  /home/ada/loss.py" in found
    assert "all else" not in found
    found = text(made(by="stack", top=1, points=100), 100)
    assert ".               100.0 MiB  25.0%  all else: 1 more group (--top 0 shows all)" in found
    assert "a  300.0 MiB    300.0 MiB  75.0%  forward  /home/ada/model.py:7" in found


def test_groups_large_at_another_moment_are_shown() -> None:
    builder = SnapshotBuilder().alloc(1 << 24, 50 * MIB, frames=FORWARD)
    builder.alloc(2 << 24, 300 * MIB, frames=LOSS).free(2 << 24, 300 * MIB)
    for i in range(20):
        builder.alloc((i + 4) << 24, 10 * MIB, frames=[("step", "/home/ada/optim.py", i + 1)])
    found = text(made(builder, by="file", top=2, points=100, device=0), 100)
    assert "a  300.0 MiB    300.0 MiB  85.7%  /home/ada/loss.py" in found
    assert "b  200.0 MiB          0 B   0.0%  /home/ada/optim.py" in found
    assert ".                50.0 MiB  14.3%  all else: 1 more group" in found


def test_rest_is_stacked_on_the_layers() -> None:
    found = text(made(by="file", top=1, points=100, device=0), 100)
    whole = text(made(by="file", top=0, points=100, device=0), 100)
    heights = [
        [
            sum(line[column : column + 1] in tuple("ab.") for line in lines)
            for column in range(10, 60)
        ]
        for lines in (
            [line for line in one.splitlines() if "│" in line or "┤" in line]
            for one in (found, whole)
        )
    ]
    assert heights[0] == heights[1]
    assert max(heights[0]) == 14


def test_event_without_memory_is_marked() -> None:
    lines = text(made(points=100, x="event", device=0)).splitlines()
    marks = next(line for line in lines if line.strip() == "▲")
    assert len(marks) == 80  # the last event


def test_final_state_is_shown_without_events() -> None:
    builder = SnapshotBuilder()
    builder.segment(1 << 30, 2 << 20, blocks=[builder.block(1 << 30, 1024, 1000)])
    found = text(made(builder, measure=["requested", "reserved"]))
    assert "device 0: no events were recorded; 1000 B requested, 2.0 MiB reserved in the" in found
    assert "next time, call" in found
    assert "nothing to show" in text(made(SnapshotBuilder(devices=0)))


def test_many_marks_are_shortened() -> None:
    builder = SnapshotBuilder()
    for i in range(20):
        builder.alloc(512 * (i + 1), 5, time_us=START_US + 10 * i)
        builder.oom(9, time_us=START_US + 10 * i + 1)
        builder.annotation(f"name {i}", "START", START_US + 10 * i)
        builder.annotation(f"name {i}", "END", START_US + 10 * i + 5)
    found = " ".join(text(made(builder)).split())
    assert "name 5 and 14 more names" in found
    assert "11 (+0.051 s)" not in found
    assert "11 (+51 us) and 14 more" in found


def test_range_names_its_annotations() -> None:
    for x in ("event", "time"):
        for first, stop, names in ((0, 3, "step 1"), (5, 9, "step 1, forward"), (45, 81, "step 2")):
            part = made(device=0, start=first, stop=stop, x=x)
            found = text(part)
            assert f"note: annotations: {names}\n" in found + "\n"
            assert all(f"[{name[:2]}" in found for name in names.split(", "))


def test_long_names_are_counted_as_displayed() -> None:
    builder = SnapshotBuilder()
    for i in range(1_200):
        builder.alloc(512 * (i + 1), 5, time_us=START_US + 10 * i)
        builder.annotation(f"{'a step ' * 9} {i}", "START", START_US + 10 * i)
        builder.annotation(f"{'a step ' * 9} {i}", "END", START_US + 10 * i + 5)
    found = " ".join(text(made(builder)).split())
    assert "note: annotations: a step a step a step a step a step a st… (1,200 times)" in found


def test_overlapping_annotations_are_in_separate_rows() -> None:
    builder = SnapshotBuilder()
    for i in range(100):
        builder.alloc(512 * (i + 1), 5, time_us=START_US + i)
    for depth in range(6):
        builder.annotation(f"训练 {depth}", "START", START_US + depth)
    for depth in range(6):
        builder.annotation(f"训练 {depth}", "END", START_US + 90 - depth)
    lanes = [line for line in text(made(builder)).splitlines() if "[训练" in line]
    assert len(lanes) == 3
    assert all(cell_width(line) <= 80 for line in lanes)
    assert "训练 0" in lanes[0]


def test_utc_times_are_shown() -> None:
    found = text(made(points=100), absolute=True)
    assert "time (UTC), from 2023-11-14 22:13:20.000000 UTC" in found
    assert "22:13:21" in found


WAYS: list[dict[str, Any]] = [
    {},
    {"measure": MEASURES},
    {"by": "stack", "top": 0},
    {"by": "pool", "measure": ["reserved", "held"]},
    {"x": "event", "points": 7},
]


@settings(max_examples=examples(60))
@given(traces(), st.sampled_from(WAYS), st.integers(40, 200), st.booleans())
def test_any_trace_fits_any_width(
    snapshot: build.Snapshot, options: dict[str, Any], width: int, absolute: bool
) -> None:
    if "measure" in options or "by" in options:  # tables need a minimum width
        width = max(width, 80)
    options = {"points": text_points(width)} | options
    report = timeline_report(mr.open(build.dump(snapshot)), **options)
    document = timeline_document(report, width, absolute=absolute)
    plain = render_plain(document, width=width)
    assert all(cell_width(line) <= width for line in plain.splitlines())
    coloured = render_terminal(document, width=width)
    assert len(coloured.splitlines()) == len(plain.splitlines())


@pytest.mark.parametrize("width", [1, 40, 10_000])
def test_width_is_limited(width: int) -> None:
    report = made(points=text_points(width))
    lines = text(report, width).splitlines()
    assert max(cell_width(line) for line in lines if "│" in line) <= min(max(width, 40), 300)
