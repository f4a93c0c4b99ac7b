"""The steps of a device, which step a moment is in, and how steps were found."""

from __future__ import annotations

from typing import Annotated, Literal

from memreplay.declared import Opt, Options
from memreplay.snapshot.record import Record

Source = Literal[
    "annotation", "recorder", "optimizer", "stacks", "sizes", "usage", "given", "whole", "windows"
]


# More steps than these are taken together, several to one.
MOST_STEPS = 4096

GUESSED: tuple[Source, ...] = ("stacks", "sizes", "usage", "windows")
"""Sources by which nothing marks the steps: they may be repetitions within a single pass."""


class StepOptions(Options, frozen=True):
    """Where steps begin, in place of where they are found to."""

    annotation: Annotated[
        str | None,
        Opt(
            "Take each annotation NAME, or NAME#…, as a step (memreplay help steps).",
            "NAME",
            flag="--step-annotation",
            brief="Take annotations of this name as steps.",
        ),
    ] = None
    """The name of the annotations that are steps, up to a #."""
    period: Annotated[
        int | None, Opt("Take every N events as a step.", "N", least=1, rare=True)
    ] = None
    """So many events are a step."""

    @property
    def given(self) -> bool:
        """Whether anything says where steps begin."""
        return self.annotation is not None or self.period is not None


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


class Piece(Record, frozen=True):
    """A step's events, counted from the first that was read: from `first` to before `stop`.

    Times are those of the annotation, None where there is none.
    """

    first: int
    stop: int
    name: str = ""
    start_us: int | None = None
    end_us: int | None = None


class Found(Record, frozen=True):
    """The steps of a device, in order; none where `source` is None, and `missing` says why."""

    source: StepSource | None
    pieces: tuple[Piece, ...]
    missing: str = ""


def taken_together(steps: int, most: int = 0) -> int:
    """Return how many steps become one, so that no more than `most` are left; 0: MOST_STEPS."""
    return -(-steps // (most or MOST_STEPS))


def together(source: StepSource, pieces: tuple[Piece, ...], most: int = 0) -> Found:
    """Return these steps, several as one if there are more than `most`; 0: MOST_STEPS."""
    count = taken_together(len(pieces), most)
    if count <= 1:
        return Found(source, pieces)
    merged = tuple(
        Piece(group[0].first, group[-1].stop, group[0].name, group[0].start_us, group[-1].end_us)
        for group in (pieces[k : k + count] for k in range(0, len(pieces) - count + 1, count))
    )
    count *= source.taken_together
    return Found(StepSource(source.kind, source.name, source.score, count), merged)
