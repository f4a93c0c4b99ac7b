"""Which step a moment is in, and how steps were found."""

from __future__ import annotations

from typing import Literal

from memreplay.snapshot.record import Record

Source = Literal[
    "annotation", "recorder", "optimizer", "stacks", "sizes", "usage", "given", "whole", "windows"
]


class StepSource(Record, frozen=True):
    """How the steps of a device were found."""

    kind: Source
    """By an annotation, by what memreplay's recorder noted, by the stacks of the optimizer, by what
    repeats (`stacks`, `sizes`, `usage`), or as `given` by `--period`. `whole` is all that was read,
    where nothing marks or repeats a step; `windows` are equal parts of it, in place of steps."""
    name: str
    """The annotation's name, up to a #; of `optimizer` what was looked at: `step` or `zero_grad`;
    else empty."""
    score: float
    """How sure it is, 0 to 1: 1 for annotations, the recorder, an optimizer and what was given, 0
    for windows."""
    taken_together: int = 1
    """How many repetitions make one step here: more than 1 where there are very many."""


class StepAt(Record, frozen=True, kw_only=True):
    """The step that a moment is in, as `memreplay steps` has it."""

    text_only = ("by", "name")

    annotation: str | None
    """The annotation that steps are found by: `ProfilerStep`, else `Optimizer.step`; null if they
    are found by the optimizer's stacks."""
    found: Source
    """How they are found: by `annotation`, `recorder` or `optimizer`."""
    number: int
    """Which step it is, from 1; `of` + 1 after the last."""
    of: int
    """How many steps there are."""
    inside: bool
    """Whether the moment is in it, and not before it."""
    by: str
    """What marks the steps: the annotation, or what of the optimizer was looked at."""
    name: str
    """What the step is called."""
