"""Records of a device's steps, the step of a moment, and how steps were found."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec.structs import replace

from memreplay.declared import Opt, Options, Shared
from memreplay.snapshot.record import Record

Source = Literal[
    "annotation", "recorder", "optimizer", "stacks", "sizes", "usage", "given", "whole", "windows"
]

Doubt = Literal["several_optimizers", "left_out"]

# If there are more steps than this, several are merged into one.
MOST_STEPS = 4096

GUESSED: tuple[Source, ...] = ("stacks", "sizes", "usage", "windows")
"""Sources without marks: the steps may be repetitions within a single pass."""


STEP = Shared("--step", "Define the steps instead of detecting them (see memreplay help steps)")


class StepOptions(Options, frozen=True):
    """Options that override where steps begin."""

    annotation: Annotated[
        str | None,
        Opt("each annotation NAME, or NAME#…", "NAME", of=STEP),
    ] = None
    """Name of the annotations that are steps; a # and anything after it are ignored."""
    period: Annotated[int | None, Opt("every N events", "N", least=1, of=STEP)] = None
    """Events per step."""

    @property
    def given(self) -> bool:
        """Whether an option defines the steps."""
        return self.annotation is not None or self.period is not None


class StepSource(Record, frozen=True):
    """How a device's steps were found."""

    found_by: Source
    """`annotation`; `recorder`; the `optimizer`'s stacks; repetition (`stacks`, `sizes`, `usage`);
    or `given` by `--step period=N`. `whole` is the whole trace as one step, if nothing marks steps
    and nothing repeats; `windows` are equal parts in place of steps.
    """
    name: str
    """The annotation's name up to a #; for `optimizer`, the function that marks steps, `step` or
    `zero_grad`; otherwise "".
    """
    score: float
    """Confidence from 0 to 1. It's 1 for annotations, the recorder, an optimizer and given steps,
    and 0 for windows.
    """
    taken_together: int = 1
    """Number of repetitions that were merged into each step; more than 1 only if there are very
    many repetitions.
    """
    doubt: Doubt | None = None
    """Why the number of steps is a guess although an optimizer marks them; null if it isn't. With
    `several_optimizers`, optimizers seem to share the annotation, so there may be fewer steps. With
    `left_out`, the optimizer skipped some steps, as with a GradScaler, so there are more.
    """

    @property
    def is_whole(self) -> bool:
        """Whether no steps were found, so that the whole trace is one step."""
        return self.found_by == "whole"


class StepAt(Record, frozen=True, kw_only=True):
    """The step that a moment is in, as in `memreplay steps`."""

    text_only = ("by", "name")

    annotation: str | None
    """The annotation that marks steps: `ProfilerStep`, otherwise `Optimizer.step`; null if they
    come from the optimizer's stacks.
    """
    found_by: Source
    """How the steps were found: `annotation`, `recorder` or `optimizer`."""
    number: int
    """Number of the step, from 1; `of` + 1 after the last step."""
    of: int
    """Number of steps."""
    inside: bool
    """Whether the moment is within the step; if false, it's before the step."""
    by: str
    """What marks the steps: the annotation or optimizer function."""
    name: str
    """Name of the step."""


class Piece(Record, frozen=True):
    """A step's events, from `first` up to but not including `stop`, numbered from the first
    selected event. Times are the annotation's, otherwise None.
    """

    first: int
    stop: int
    name: str = ""
    start_us: int | None = None
    end_us: int | None = None


class Found(Record, frozen=True):
    """A device's steps in order. If there are none, `source` is None and `missing` says why."""

    source: StepSource | None
    pieces: tuple[Piece, ...]
    missing: str = ""
    brief: str = ""
    """`missing` without what to do."""


def none_found(why: str, more: str = "") -> Found:
    """Return no steps, and the reason. `more` follows it: details, and what to do."""
    return Found(None, (), why + more, why)


def taken_together(steps: int, most: int = 0) -> int:
    """Return how many steps to merge into one so that at most `most` remain (0: MOST_STEPS)."""
    return -(-steps // (most or MOST_STEPS))


def together(source: StepSource, pieces: tuple[Piece, ...], most: int = 0) -> Found:
    """Merge steps if there are more than `most` (0: MOST_STEPS)."""
    count = taken_together(len(pieces), most)
    if count <= 1:
        return Found(source, pieces)
    merged = tuple(
        Piece(group[0].first, group[-1].stop, group[0].name, group[0].start_us, group[-1].end_us)
        for group in (pieces[k : k + count] for k in range(0, len(pieces) - count + 1, count))
    )
    count *= source.taken_together
    return Found(replace(source, taken_together=count), merged)
