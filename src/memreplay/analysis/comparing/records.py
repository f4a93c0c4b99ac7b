"""Rows and sides of a comparison."""

from __future__ import annotations

from typing import Literal, get_args

from memreplay.analysis.steps.records import StepAt
from memreplay.snapshot.model import Coded, Exactness, OfBackend

Status = Literal["grew", "shrank", "new", "gone", "same"]


# The phases of a training step that peaks are told apart by.
Phase = Literal["forward", "backward", "optimizer"]
PHASES: tuple[Phase, ...] = get_args(Phase)
# As `--phase` and the key `phase` of a budget have them: one, or all of them beside the whole.
PhaseChoice = Literal["forward", "backward", "optimizer", "each"]
PHASE_CHOICES: tuple[PhaseChoice, ...] = get_args(PhaseChoice)


class DiffRow(Coded, frozen=True, kw_only=True):
    """One group in both snapshots. `label`, `user`, `libraries` and `frames` are those of the new
    one if it has the group; of a row of several groups `frames` are what they have in common."""

    status: Status
    """What became of it."""
    base_bytes: int
    """What it held in the base; 0 if that does not have it."""
    new_bytes: int
    """What it holds in the new snapshot; 0 if that does not have it."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""
    base_count: int
    """In how many allocations, in the base."""
    new_count: int
    """In how many allocations, in the new snapshot."""
    base_groups: int = 0
    """Of how many groups of the base the row is: by stack, code paths that differ in plumbing, or
    in their callers."""
    new_groups: int = 0
    """The same of the new snapshot."""
    guessed: bool = False
    """By category: whether part of it is only likely to be in the category, on either side. It was
    there before the recording began."""
    below: bool = False
    """Whether it is of functions that the frames call and one of the two alone has (split off,
    inlined), not of the first frame itself."""


class CategoryChange(Coded, frozen=True, kw_only=True):
    """A category that changed. `label`, `user`, `libraries` and `frames` are those of the line of
    code that changed most in it; the label is empty if that was not looked for."""

    category: str
    """Its [name](categories.md)."""
    base_bytes: int
    """What it held in the base."""
    new_bytes: int
    """What it holds in the new snapshot."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""
    line_change_bytes: int | None = None
    """What the line changed by; null if that was not looked for."""


class Side(OfBackend, frozen=True, kw_only=True):
    """A device of one of the two snapshots at the moment that is compared."""

    bytes: int
    """Live then, by the measure."""
    count: int
    """In how many allocations."""
    event_index: int
    """The event after which it is so; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time; null for a baseline."""
    phase: Phase | None = None
    """The phase of a training step that it is in, as recorded or guessed from the stacks; null
    outside of them, or if it isn't known."""
    annotation: str | None = None
    """The innermost annotation that is open then; null if none is, or for a baseline."""
    step: StepAt | None = None
    """The step that it is in; null if no steps are known, or for a baseline."""
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]


LimitKind = Literal[
    "max_peak",
    "max_growth",
    "max_growth_bytes",
    "max_reserved",
    "max_fragmentation",
    "max_spread",
    "no_leaks",
    "no_oom",
]
