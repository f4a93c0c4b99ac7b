"""Records of a comparison: rows and sides."""

from __future__ import annotations

from typing import Literal, get_args

from memreplay.analysis.steps.records import StepAt
from memreplay.snapshot.model import Coded, Exactness, OfBackend

Status = Literal["grew", "shrank", "new", "gone", "same"]


Phase = Literal["forward", "backward", "optimizer"]
PHASES: tuple[Phase, ...] = get_args(Phase)
# Values of `--phase` and of a budget's `phase`: a single phase, or each phase as well as the whole
# run.
PhaseChoice = Literal["forward", "backward", "optimizer", "each"]
PHASE_CHOICES: tuple[PhaseChoice, ...] = get_args(PhaseChoice)


class DiffRow(Coded, frozen=True, kw_only=True):
    """One group in both snapshots.

    `label`, `user`, `libraries` and `frames` are the new snapshot's if it has the group. If a row
    merges several groups, `frames` are their common frames.
    """

    status: Status
    """What changed."""
    base_bytes: int
    """Bytes in the base; 0 if it lacks the group."""
    new_bytes: int
    """Bytes in the new snapshot; 0 if it lacks the group."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""
    base_count: int
    """Number of allocations in the base."""
    new_count: int
    """Number of allocations in the new snapshot."""
    base_groups: int = 0
    """Number of the base's groups that this row merges. When grouped by stack, these are code paths
    that differ in plumbing or callers.
    """
    new_groups: int = 0
    """Number of the new snapshot's groups that this row merges."""
    guessed: bool = False
    """When grouped by category: whether either side includes guesses about memory allocated before
    the recording.
    """
    below: bool = False
    """Whether the change is in functions that the first frame calls, rather than in the frame
    itself. Only one side has these functions, for example because they were split off or inlined.
    """


class CategoryChange(Coded, frozen=True, kw_only=True):
    """A changed category.

    `label`, `user`, `libraries` and `frames` describe the line that changed most in it; the
    label is "" if that wasn't determined.
    """

    category: str
    """Its [name](categories.md)."""
    base_bytes: int
    """Bytes in the base."""
    new_bytes: int
    """Bytes in the new snapshot."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""
    line_change_bytes: int | None = None
    """Change of the line that changed most; null if it wasn't determined."""


class Side(OfBackend, frozen=True, kw_only=True):
    """A device of one snapshot at the compared moment."""

    bytes: int
    """Live bytes of the measure."""
    count: int
    """Number of allocations."""
    event_index: int
    """The moment is the state after this event; `first_event` - 1 is the start."""
    time_us: int | None
    """Time of that event; null for a baseline."""
    phase: Phase | None = None
    """Phase of the training step, as recorded or guessed from stacks; null between steps or if
    unknown.
    """
    annotation: str | None = None
    """Innermost open annotation; null if none is open, or for a baseline."""
    step: StepAt | None = None
    """Training step; null if steps are unknown, or for a baseline."""
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
    "forbid_leaks",
    "forbid_oom",
]
