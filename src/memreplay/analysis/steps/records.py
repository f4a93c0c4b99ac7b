"""Which step a moment is in, and how steps were found."""

from __future__ import annotations

from typing import Literal, NamedTuple

from memreplay.snapshot.record import Record

Source = Literal["annotation", "optimizer", "stacks", "sizes", "usage", "given", "whole", "windows"]


class StepSource(Record, frozen=True):
    """How the steps of a device were found."""

    kind: Source
    """By an annotation, by the stacks of the optimizer, by what repeats (`stacks`, `sizes`,
    `usage`), or as `given` by `--period`. `whole` is all that was read, where nothing marks or
    repeats a step; `windows` are equal parts of it, in place of steps."""
    name: str
    """The annotation's name, up to a #; of `optimizer` what was looked at: `step` or `zero_grad`;
    else empty."""
    score: float
    """How sure it is, 0 to 1: 1 for annotations, an optimizer and what was given, 0 for windows."""
    taken_together: int = 1
    """How many repetitions make one step here: more than 1 where there are very many."""


class StepAt(NamedTuple):
    """Which step a moment is in: the `number`-th, from 1, of the `of` that `source` says.

    `inside` says that it is in the step itself, called `name`; else it is before that one, and
    after the one before; after the last, `number` is one more than there are.
    """

    source: StepSource
    name: str
    number: int
    of: int
    inside: bool
