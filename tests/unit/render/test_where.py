"""Tests of render/where.py."""

from __future__ import annotations

from typing import Any

import pytest

from memreplay.analysis.steps.records import StepAt
from memreplay.render.where import NAME_WIDTH, where_text

PROFILER: dict[str, Any] = {
    "annotation": "ProfilerStep",
    "found_by": "annotation",
    "by": "ProfilerStep",
}
MARKED: dict[str, Any] = {
    "annotation": "Optimizer.step",
    "found_by": "annotation",
    "by": "Optimizer.step",
}
TURNS: dict[str, Any] = {"annotation": None, "found_by": "optimizer", "by": "zero_grad"}
ADAM = "Optimizer.step#Adam.step"
SEVENTH = "ProfilerStep#7"


@pytest.mark.parametrize(
    "step, annotations, words",
    [
        (None, (), ""),
        (None, ("train", "forward"), "annotation train > forward"),
        (
            StepAt(**PROFILER, name="", number=3, of=10, inside=False),
            (),
            "before step 3 of 10 (ProfilerStep)",
        ),
        (
            StepAt(**PROFILER, name="", number=11, of=10, inside=False),
            (),
            "after step 10 of 10 (ProfilerStep)",
        ),
        (
            StepAt(**PROFILER, name=SEVENTH, number=3, of=10, inside=True),
            (SEVENTH,),
            f"step 3 of 10 ({SEVENTH})",
        ),
        (
            StepAt(**PROFILER, name=SEVENTH, number=3, of=10, inside=True),
            (SEVENTH, "forward"),
            f"step 3 of 10 ({SEVENTH}), annotation forward",
        ),
        (
            StepAt(**MARKED, name=ADAM, number=3, of=10, inside=True),
            (ADAM,),
            f"step 3 of 10 (ends with Optimizer.step), annotation {ADAM}",
        ),
        (
            StepAt(**TURNS, name="", number=1_000, of=2_000, inside=True),
            (),
            "step 1,000 of 2,000 (ends with the optimizer's zero_grad())",
        ),
    ],
)
def test_step_and_annotations_are_worded(
    step: StepAt | None, annotations: tuple[str, ...], words: str
) -> None:
    assert where_text(step, annotations) == words


def test_long_name_is_cut_and_control_characters_are_escaped() -> None:
    words = where_text(None, ("a" * 100,))
    assert len(words) == len("annotation ") + NAME_WIDTH
    assert "\x1b" not in where_text(None, ("\x1b[2J",))
