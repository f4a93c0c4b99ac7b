"""What simulations found, as commands show it."""

from __future__ import annotations

from memreplay.analysis.groups.asking import Asker
from memreplay.snapshot.model import Exactness
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_allocator import Outcome


class FailedRequest(Record, frozen=True):
    """A request for which the simulated allocator has no memory."""

    event_index: int
    """Its event."""
    time_us: int | None
    """That event's time."""
    request_bytes: int
    """What was asked for."""
    asked_by: Asker
    """The code that asked."""


class Candidate(Record, frozen=True, kw_only=True):
    """Settings that were tried, and what came of them."""

    settings: str
    """As PYTORCH_CUDA_ALLOC_CONF spells them; empty for PyTorch's defaults."""
    is_recorded: bool
    """Whether they are those of the recording."""
    simulated: Outcome
    """What the allocator makes of the program."""
    stopped_event: int | None
    """The event at which the program would have run out of memory, and the simulation ends; null if
    it does not."""
    exactness: Exactness
    """Whether that is exact."""


class Changed(Record, frozen=True, kw_only=True):
    """A change of the program itself, before it was simulated."""

    factor: float
    """What the sizes of the chosen allocations were multiplied by; 0 if they were left out."""
    twice: bool
    """Whether they were made twice, as checkpointing does."""
    allocations: int
    """How many allocations of the recording were chosen."""
    bytes: int
    """What they asked for."""
    carried_over_blocks: int
    """How many blocks from before the recording were chosen. They keep their size, but are left out
    with a factor of 0."""
