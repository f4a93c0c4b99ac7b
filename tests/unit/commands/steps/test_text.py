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
    device = replace(one.devices[0], step_source=source, **changes)
    return text(replace(one, devices=(device,)), 200)


@pytest.mark.parametrize("width", [80, 160])
def test_lines_fit_the_terminal(width: int) -> None:
    assert all(len(line) <= width for line in text(report(), width, top=0).splitlines())


def test_steps_are_rows_and_odd_ones_are_marked() -> None:
    lines = text(report(), 120).splitlines()
    assert "device 0: 30 steps, requested, exact" in lines
    assert "steps    annotation ProfilerStep; step 1 is ProfilerStep#0" in lines
    assert any(line.startswith("warm-up  steps 1 to ") for line in lines)
    assert any(line.startswith("before   9 events, 8 allocations of 320.0 KiB") for line in lines)
    head = next(n for n, line in enumerate(lines) if line.startswith("step  event"))
    shown = [line.split()[0] for line in lines[head + 1 :] if line]
    assert shown == [
        "1",
        "2",
        "3",
        "…",
        "*9",
        "…",
        "*18",
        "…",
        "*27",
        "28",
        "29",
        "30",
        *["note:"] * 2,
    ]
    assert lines[-2] == "note: 21 steps left out (--top 0 shows all)"


def test_all_rows_can_be_shown() -> None:
    whole = text(report(), top=0)
    assert "…" not in whole
    assert "left out" not in whole


def test_peak_before_a_range_is_at_its_start() -> None:
    (device,) = report().devices
    steps = tuple(replace(device.steps[0], peak_event=at) for at in (699, 700, -1))
    made = replace(device, first_event=700, steps=steps, odd=(), steady=None)
    rows = [line.split() for line in text(replace(report(), devices=(made,)), 120).splitlines()]
    shown = [row for row in rows if row[:1] == [str(steps[0].number)]]
    assert ["start" in row for row in shown] == [True, False, True]
    assert "700" in shown[1]


def test_text_says_how_the_steps_were_found() -> None:
    assert "annotation Optimizer.step, from the end of one to the end" in text(
        report(annotations="optimizer"), 120
    )
    words = "each ends with the optimizer's step(), found in stacks"
    assert words in found_by(StepSource("optimizer", "step", 1.0))
    assert "note: nothing names" not in found_by(StepSource("optimizer", "step", 1.0))
    # A repeating pattern isn't necessarily a step, so these steps are a guess.
    for source, how in (
        (StepSource("stacks", "", 0.9), "inferred from repeating stacks"),
        (StepSource("stacks", "", 0.7), "guessed from repeating stacks"),
        (StepSource("sizes", "", 0.95), "guessed from repeating allocation sizes"),
    ):
        assert how in found_by(source)
        assert "score" not in found_by(source)
        assert "note: these steps are guessed from repetition" in found_by(source)
    whole = found_by(StepSource("whole", "", 0.0))
    assert "device 0: no steps were found, requested, exact\n" in whole
    assert "none found: the whole recording is shown as one" in whole
    assert "note: no annotation or optimizer" in whole
    assert "guessed from memory rising and falling" in found_by(StepSource("usage", "", 0.5))
    assert "from --step period" in found_by(StepSource("given", "", 1.0))
    assert "each step here is 7 repetitions" in found_by(StepSource("given", "", 1.0, 7))


def test_growth_suggests_leaks() -> None:
    made = text(report(), 200)
    assert "KiB more than the one before; memreplay leaks shows which code keeps it" in made
    own = found_by(StepSource("annotation", "my step", 1.0))
    assert "memreplay leaks --step 'annotation=my step' shows" in own
    steady = report().devices[0].steady
    assert steady is not None
    steady = replace(steady, first=1, last=2)
    steps = replace(report().devices[0].steps[0], first_event=0, last_event=599)
    own = found_by(StepSource("given", "", 1.0, 2), steps=(steps, steps), odd=(), steady=steady)
    assert "memreplay leaks --step period=300 shows" in own
    once = tuple(replace(steps, number=k + 1, growth_bytes=k and 4096) for k in range(2))
    for changes in (
        {"steps": once, "odd": (), "steady": steady},
        {"steady": replace(steady, growth_bytes=0)},
        {"measure": "reserved"},
        {"steps": (steps,), "odd": ()},
    ):
        assert "memreplay leaks" not in found_by(StepSource("optimizer", "step", 1.0), **changes)


def test_steps_without_times_have_dashes() -> None:
    steps = tuple(replace(one, start_us=None, end_us=None) for one in report().devices[0].steps)
    made = found_by(StepSource("given", "", 1.0), steps=steps, odd=(), warm_up_steps=0)
    assert "odd     none" in made
    assert "warm-up" not in made
    assert "  -  " in made


def test_filters_and_devices_without_steps_are_shown() -> None:
    one = replace(report(), pool=(0, 1), stream=7)
    none = replace(one.devices[0], device=1, step_source=None, missing="no events were recorded")
    made = text(replace(one, devices=(*one.devices, none)))
    assert "pool     0:1 only" in made
    assert "stream   7 only" in made
    assert "device 1: no steps\nnote: no events were recorded" in made
