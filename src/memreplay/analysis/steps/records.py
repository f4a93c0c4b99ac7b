"""Which step a moment is in, and how steps were found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from memreplay.snapshot.brief import Brief

# How steps were found. "whole" is all that was read, where nothing in it marks or repeats a step;
# "windows" are equal parts of the trace, where there are no steps.
Source = Literal["annotation", "optimizer", "stacks", "sizes", "usage", "given", "whole", "windows"]


@dataclass(frozen=True, slots=True)
class StepSource(Brief):
    """How the steps of a device were found.

    `name` is the annotation's, without what follows its #; of "optimizer" it is what was looked at,
    `step` or `zero_grad`. `score`, 0 to 1, says how sure it is: 1 of annotations, of an optimizer's
    turns and of what was given. `taken_together` is how many repetitions make one step
    here: more than 1 where there are very many.
    """

    kind: Source
    name: str
    score: float
    taken_together: int = 1


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
