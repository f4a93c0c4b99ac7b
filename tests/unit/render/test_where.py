"""Tests of render/where.py."""

from __future__ import annotations

import pytest

from memreplay.analysis.steps.records import StepAt, StepSource
from memreplay.render.where import NAME_WIDTH, where_words

PROFILER = StepSource("annotation", "ProfilerStep", 1.0)
MARKED = StepSource("annotation", "Optimizer.step", 1.0)
TURNS = StepSource("optimizer", "zero_grad", 1.0)
ADAM = "Optimizer.step#Adam.step"
SEVENTH = "ProfilerStep#7"


@pytest.mark.parametrize(
    "step, annotations, words",
    [
        (None, (), ""),
        (None, ("train", "forward"), "annotation train > forward"),
        (StepAt(PROFILER, "", 3, 10, False), (), "before step 3 of 10 (ProfilerStep)"),
        (StepAt(PROFILER, "", 11, 10, False), (), "after step 10 of 10 (ProfilerStep)"),
        (StepAt(PROFILER, SEVENTH, 3, 10, True), (SEVENTH,), f"step 3 of 10 ({SEVENTH})"),
        (
            StepAt(PROFILER, SEVENTH, 3, 10, True),
            (SEVENTH, "forward"),
            f"step 3 of 10 ({SEVENTH}), annotation forward",
        ),
        (
            StepAt(MARKED, ADAM, 3, 10, True),
            (ADAM,),
            f"step 3 of 10 (ends with Optimizer.step), annotation {ADAM}",
        ),
        (
            StepAt(TURNS, "", 1_000, 2_000, True),
            (),
            "step 1,000 of 2,000 (ends with the optimizer's zero_grad())",
        ),
    ],
)
def test_the_words(step: StepAt | None, annotations: tuple[str, ...], words: str) -> None:
    assert where_words(step, annotations) == words


def test_a_long_name_is_cut_and_control_characters_are_shown() -> None:
    words = where_words(None, ("a" * 100,))
    assert len(words) == len("annotation ") + NAME_WIDTH
    assert "\x1b" not in where_words(None, ("\x1b[2J",))
