"""Records of simulation results."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.groups.requesting import Asker
from memreplay.snapshot.model import Exactness
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_allocator import Outcome


class FailedRequest(Record, frozen=True):
    """A request that the simulated allocator couldn't serve."""

    event_index: int
    """Event of the request."""
    time_us: int | None
    """Time of that event."""
    request_bytes: int
    """Requested bytes."""
    asked_by: Asker
    """Call site that made the request."""


class Candidate(Record, frozen=True, kw_only=True):
    """Simulated settings and their outcome."""

    settings: str
    """The settings in the syntax of PYTORCH_CUDA_ALLOC_CONF; "" for PyTorch's defaults."""
    is_recorded: bool
    """Whether these are the recording's settings."""
    simulated: Outcome
    """What the simulated allocator did."""
    stopped_event: int | None
    """The event at which the program would run out of memory, which ends the simulation; null if
    memory is sufficient.
    """
    exactness: Exactness
    """Whether the simulation is exact."""


class Changed(Record, frozen=True, kw_only=True):
    """A change made to the program before the simulation."""

    factor: float
    """Factor for the sizes of the selected allocations; 0 if they were removed."""
    twice: bool
    """Whether the selected allocations were freed early and allocated again, as with checkpointing.
    """
    allocation_count: int
    """Number of selected allocations."""
    bytes: int
    """Requested bytes."""
    carried_over_blocks: int
    """Number of selected carried-over blocks. A factor of 0 removes them; other factors don't
    change their size.
    """


class Need(Record, frozen=True, kw_only=True):
    """How much memory the program needs with some settings. With 2 MiB less, the program doesn't
    fit.
    """

    settings: str
    """The settings, in the form of PYTORCH_CUDA_ALLOC_CONF; empty for PyTorch's defaults."""
    program_memory_bytes: int
    """Memory that the driver must have for the program."""
    exactness: Exactness
    """Whether the result is exact."""


class Fit(Record, frozen=True, kw_only=True):
    """Whether the program fits on one card."""

    total_memory_bytes: int
    """The card's memory, as given."""
    context_bytes: int | UnsetType = UNSET
    """The part that CUDA itself uses: an estimate, unless memreplay's recorder measured it on this
    card.
    """
    fits: bool
    """Whether no request fails with the given settings, and there is room for the memory reserved
    before the recording.
    """
    simulated: Outcome
    """What the allocator did on this card until the end, or until memory ran out."""
    failed: FailedRequest | None
    """The first failed request; null if there is none."""
    stopped_event: int | None
    """The event at which the simulation ends, because a request fails on this card that succeeded
    in the recording; null if the simulation reaches the recording's end.
    """
    exactness: Exactness
    """Whether the result is exact."""
    others: tuple[str, ...]
    """If the program doesn't fit: settings with which it would fit, best first. About 30 settings
    were tried.
    """
