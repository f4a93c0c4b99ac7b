"""Tests of commands/steps/text.py."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

import leaky
import memreplay as mr
from memreplay.analysis.steps.records import StepSource
from memreplay.commands.steps.find import steps_report
from memreplay.commands.steps.result import StepsReport
from memreplay.commands.steps.text import steps_document
from memreplay.render.plain import render_plain


@cache
def report(annotations: str = "profiler") -> StepsReport:
    options = leaky.Options(steps=30, evaluate_every=9, annotations=annotations)
    return steps_report(mr.open(leaky.snapshot_bytes(options)))


def text(found: StepsReport, width: int = 80, top: int = 6) -> str:
    return render_plain(steps_document(found, top=top), width=width)


def found_by(source: StepSource, **changes: object) -> str:
    one = report()
    device = replace(one.devices[0], source=source, **changes)
    return text(replace(one, devices=(device,)), 200)


@pytest.mark.parametrize("width", [80, 160])
def test_it_fits(width: int) -> None:
    assert all(len(line) <= width for line in text(report(), width, top=0).splitlines())


def test_text() -> None:
    lines = text(report(), 120).splitlines()
    assert "device 0: 30 steps, requested, exact" in lines
    assert "steps    annotation ProfilerStep; step 1 is ProfilerStep#0" in lines
    assert any(line.startswith("warm-up  steps 1 to ") for line in lines)
    assert any(line.startswith("before   9 events, 8 allocations of 320.0 KiB") for line in lines)
    head = next(n for n, line in enumerate(lines) if line.startswith("step  event"))
    shown = [line.split()[0] for line in lines[head + 1 :] if line]
    assert shown == ["1", "2", "3", "…", "*9", "…", "*18", "…", "*27", "28", "29", "30", "note:"]
    assert lines[-1] == "note: 21 steps left out (--top 0 shows all)"


def test_all_rows() -> None:
    whole = text(report(), top=0)
    assert "…" not in whole
    assert "left out" not in whole


def test_a_peak_before_the_range_is_at_its_start() -> None:
    (device,) = report().devices
    steps = tuple(replace(device.steps[0], peak_event=at) for at in (699, 700, -1))
    made = replace(device, first_event=700, steps=steps, odd=(), steady=None)
    rows = [line.split() for line in text(replace(report(), devices=(made,)), 120).splitlines()]
    shown = [row for row in rows if row[:1] == [str(steps[0].index)]]
    assert ["start" in row for row in shown] == [True, False, True]
    assert "700" in shown[1]


def test_what_the_steps_were_found_by() -> None:
    assert "annotation Optimizer.step, from the end of one to the end" in text(
        report(annotations="optimizer"), 120
    )
    words = "by the stacks of the optimizer's step(): each ends with it"
    assert words in found_by(StepSource("optimizer", "step", 1.0))
    assert "note: nothing names" not in found_by(StepSource("optimizer", "step", 1.0))
    # What repeats need not be a step: nobody is sure of it.
    for source, how in (
        (StepSource("stacks", "", 0.9), "likely"),
        (StepSource("stacks", "", 0.7), "a guess"),
        (StepSource("sizes", "", 0.95), "a guess"),
    ):
        assert f": {how} (score" in found_by(source)
        assert "note: nothing names these steps, so they may be other" in found_by(source)
    assert "none found: everything that was read counts as one" in found_by(
        StepSource("whole", "", 0.0)
    )
    assert "note: no annotation or optimizer" in found_by(StepSource("whole", "", 0.0))
    assert "the rise and fall of memory" in found_by(StepSource("usage", "", 0.5))
    assert "as given by --period" in found_by(StepSource("given", "", 1.0))
    assert "each step here is 7 repetitions" in found_by(StepSource("given", "", 1.0, 7))


def test_steps_without_times_or_odd_ones() -> None:
    steps = tuple(replace(one, start_us=None, end_us=None) for one in report().devices[0].steps)
    made = found_by(StepSource("given", "", 1.0), steps=steps, odd=(), warm_up_steps=0)
    assert "odd     none" in made
    assert "warm-up" not in made
    assert "  -  " in made


def test_parts_and_devices_without_steps() -> None:
    one = replace(report(), pool=(0, 1), stream=7)
    none = replace(one.devices[0], device=1, source=None, missing="no events were recorded")
    made = text(replace(one, devices=(*one.devices, none)))
    assert "pool     0:1 alone" in made
    assert "stream   7 alone" in made
    assert "device 1: no steps\nnote: no events were recorded" in made
