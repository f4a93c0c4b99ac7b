"""Tests of commands/leaks/text.py."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

import leaky
import memreplay as mr
from memreplay.analysis.leaks.records import MemorySource, RunsOut
from memreplay.analysis.steps.records import StepSource
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.leaks.result import LeaksReport
from memreplay.commands.leaks.text import leaks_document
from memreplay.render.plain import render_plain
from tests import build, oracle
from tests.holding import held, with_holders

GIB = 1 << 30


@cache
def report(leak_bytes: int = 64 << 10, **options: Any) -> LeaksReport:
    made = leaky.snapshot_bytes(leaky.Options(steps=30, leak_bytes=leak_bytes))
    return leaks_report(mr.open(made), **options)


def text(found: LeaksReport, width: int = 120) -> str:
    return render_plain(leaks_document(found), width=width)


def changed(found: LeaksReport, **changes: Any) -> str:
    return text(replace(found, devices=(replace(found.devices[0], **changes),)), 300)


@pytest.mark.parametrize("width", [80, 160])
def test_lines_fit_the_terminal(width: int) -> None:
    assert all(len(line) <= width for line in text(report(), width).splitlines())


def test_leak_is_a_row() -> None:
    lines = text(report()).splitlines()
    assert "device 0: 1 stack leaks 64.0 KiB a step" in lines
    assert "steps    30, annotation ProfilerStep" in lines
    row = next(line for line in lines if "train.py:54" in line)
    assert " ".join(row.split()[:10]) == "64.0 KiB >1,000:1 +1.2 MiB 1.9 MiB 20 of 20"
    assert any("+8.1 MiB" in line and "model.py:23" in line for line in lines)
    assert "2 more stacks (--json --top 0)" in text(report())
    assert "note: give --total-memory 80GiB" in text(report())


def test_holders_of_a_leak_are_below_it() -> None:
    made = pickle.loads(leaky.snapshot_bytes(leaky.Options(steps=30, leak_bytes=64 << 10)))
    leaking = [
        one.addr
        for one in oracle.replay(made, 0).lifetimes
        if one.free_index is None and any(line == 54 for _, _, line in one.frames)
    ]
    assert len(leaking) == 30
    groups = held("losses[…]"), held("kept", line=13), held("last", line=14)
    of_blocks = dict.fromkeys(leaking, 0) | dict.fromkeys(leaking[:9], 1) | {leaking[-1]: 2}
    found = leaks_report(mr.open(build.dump(with_holders(made, groups, of_blocks))))
    (leak,) = found.devices[0].leaks
    assert [(one.name, one.count) for one in leak.holders] == [
        ("losses[…]", 20),
        ("kept", 9),
        ("last", 1),
    ]
    for width in (80, 160):
        lines = text(found, width).splitlines()
        at = next(i for i, line in enumerate(lines) if "train.py:54" in line)
        below = " ".join(lines[at + 1 : at + 7])
        assert "held by losses[…] (list) in train()" in below
        assert "held by kept (list) in train()" in below
        assert "last" not in below  # only a thirtieth
    assert report().devices[0].leaks[0].holders == ()


def test_memory_without_a_stack_is_not_called_a_stack() -> None:
    one = report().devices[0]
    leak = replace(one.leaks[0], frames=(), user=(), libraries=(), label="(no stack)")
    page = changed(report(), leaks=(leak,))
    assert "device 0: 1 group leaks 64.0 KiB a step" in page
    windows = report(windows=8)
    assert "to see after how many windows that card" in text(windows)


def test_row_has_the_odds_and_the_error() -> None:
    one = report().devices[0]
    leak = replace(one.leaks[0], odds=9.6, bytes_per_step_error=one.leaks[0].bytes_per_step // 4)
    row = next(line for line in changed(report(), leaks=(leak,)).splitlines() if "py:54" in line)
    assert " ".join(row.split()[:4]) == "64.0 KiB ±25% 9:1"


def test_possible_leak_has_a_note() -> None:
    one = report().devices[0]
    made = changed(report(), once=(replace(one.once[0], odds=2.6), *one.once[1:]))
    assert "model.py:23 may leak: the odds are 2:1, and it takes 3:1 to call it a leak" in (
        " ".join(made.split())
    )
    assert "may leak" not in text(report())


def test_too_few_steps_are_reported() -> None:
    made = changed(
        report(), judged=False, step_count=2, not_judged_reason="2 steps tell nothing", leaks=()
    )
    assert "device 0: 2 steps, too few to judge leaks" in made
    assert "after the last of 2: +" in made
    assert "note: 2 steps tell nothing" in made
    assert "not judged" not in made


def test_report_says_that_no_steps_were_found() -> None:
    """The message must not say that 1 step is too few, because that step is only a guess."""
    whole = StepSource("whole", "", 0.0)
    why = "no steps were found, and the recording may be a single one"
    made = changed(
        report(), judged=False, step_count=1, step_source=whole, not_judged_reason=why, leaks=()
    )
    assert "device 0: no steps were found, so leaks can't be judged" in made
    assert "at the start" in made
    assert f"note: {why}" in made
    assert "stopped at" not in made
    assert "1 step" not in made


def test_ongoing_growth_is_marked() -> None:
    one = report().devices[0]
    made = changed(report(), once=(one.once[0], replace(one.once[1], stopped=False)))
    assert made.count("not yet") == 1
    assert "not yet" not in text(report())


def test_report_says_that_nothing_leaks() -> None:
    made = text(report(0))
    assert "device 0: no leak\n" in made
    assert "leaks a step" not in made
    assert "--total-memory" not in made
    assert "old      none" in changed(report(0), old_count=0)


def test_out_of_memory_is_projected() -> None:
    made = text(report(total_memory=GIB))
    assert "runs out  in 13,874 more steps" in made
    assert " in 890.9 MiB (the card as given, 1.0 GiB," in made
    assert "--total-memory" not in made
    none = changed(report(), runs_out=out(source="oom", peak_bytes=2 * GIB, step_count=0))
    assert "now: the peak of 2.0 GiB already fills 1.0 GiB (free and reserved at an" in none
    soon = changed(report(), runs_out=out(source="given", peak_bytes=2, step_count=1))
    assert "in 1 more step, at the peak of 2 B in 1.0 GiB (the card as given)" in soon
    noted = changed(report(), runs_out=out(source="recorded", peak_bytes=2, usable_bytes=GIB // 2))
    assert "(the recording's card, 1.0 GiB, less an estimated 512.0 MiB for CUDA itself)" in noted


def out(*, source: MemorySource, **others: int) -> RunsOut:
    sizes = {"total_memory_bytes": GIB, "usable_bytes": GIB, "step_count": 1, **others}
    return RunsOut(total_memory_source=source, given=source == "given", after_us=None, **sizes)


def test_hidden_leaks_are_counted() -> None:
    one = report().devices[0]
    made = changed(
        report(), leaks=(one.leaks[0],) * 2, leaks_total=5, leak_bytes_per_step=300 << 10
    )
    assert "5 stacks leak 300.0 KiB a step" in made
    assert "3 more stacks (--top 0 shows all)" in made


def test_alternating_growth_has_a_warning() -> None:
    made = changed(report(0), whole_bytes_per_step=5 << 10)
    assert "memory grows, but no stack leaks" in made
    assert "warning: memory grows by 5.0 KiB a step overall" in made


def test_windows_and_guessed_steps_have_notes() -> None:
    made = text(report(windows=20))
    assert "windows  20, equal parts of the events" in made
    assert "KiB a window" in made
    assert "note: windows aren't steps: a stack leaks here if it grows throughout" in made
    source = report().devices[0].step_source
    assert source is not None
    guess = replace(source, found_by="usage", score=0.2, taken_together=3)
    assert "note: these steps are guessed from repetition" in changed(report(), step_source=guess)
    assert "step here is 3 repetitions" in changed(report(), step_source=guess)


def test_windows_never_rule_out_a_leak() -> None:
    """Memory that grows at only a few moments stays live, but isn't seen to leak."""
    made = text(report(0, windows=20))
    assert "device 0: no stack grows throughout the recording\n" in made
    assert "no leak" not in made
    assert "from leaks" not in made
    assert " grew  stopped at window" in made
    grouped = text(report(0, windows=20, by="file"))
    assert "device 0: no group grows throughout the recording\n" in grouped
    growing = changed(report(0, windows=20), growing_bytes_per_step=2048)
    assert "throughout the recording, but each window needs 2.0 KiB more than" in growing


def test_steps_that_are_not_judged_are_named() -> None:
    made = changed(report(windows=20), step_count=19, exit_steps=1)
    assert "windows  20, equal parts of the events; window 20 isn't judged, because" in made
    assert " after window 19\n" in made
    assert "after the last" not in made
    made = changed(report(), step_count=27, exit_steps=3)
    assert "steps    30, annotation ProfilerStep; steps 28 to 30 aren't judged, because" in made
    assert "still live 3 steps later and after step 27\n" in made
    assert "still live 3 steps later and after the last\n" in text(report(), 300)


def test_few_steps_have_a_note() -> None:
    assert "30 steps are few" not in text(report())
    assert "note: 9 steps are few" in changed(report(), step_count=9, warm_up_steps=3)


def test_freed_memory_has_a_note() -> None:
    made = changed(report(), once_bytes=GIB, leak_bytes=0, start_bytes=5, end_bytes=5)
    assert "note: 1.0 GiB was freed in the same steps" in made
    assert "freed meanwhile" not in text(report())


def test_filters_and_unjudged_devices_are_shown() -> None:
    one = replace(report(), pool=(0, 1), stream=7)
    none = replace(
        one.devices[0], device=1, step_source=None, not_judged_reason="no events were recorded"
    )
    made = text(replace(one, devices=(*one.devices, none)))
    assert "pool     0:1 only" in made
    assert "stream   7 only" in made
    assert "device 1: can't look for leaks\nnote: no events were recorded" in made


def test_all_frames_can_be_shown() -> None:
    document = leaks_document(report(), all_frames=True)
    assert "AccumulateGrad::apply" in render_plain(document, width=120)
