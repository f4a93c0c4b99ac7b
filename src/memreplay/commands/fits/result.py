"""The results of `memreplay fits`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.simulating.records import FailedRequest
from memreplay.snapshot.model import Exactness, OfBackend
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_allocator import Outcome


class Need(Record, frozen=True, kw_only=True):
    """What some settings need: with as much the program fits, and with 2 MiB less it does not."""

    settings: str
    """As PYTORCH_CUDA_ALLOC_CONF spells them; empty for PyTorch's defaults."""
    total_bytes: int
    """What the driver has to have for the program."""
    exactness: Exactness
    """Whether that is exact."""


class Fit(Record, frozen=True, kw_only=True):
    """Whether the program fits on one card."""

    total_bytes: int
    """The card's memory, as it was asked for."""
    context_bytes: int | UnsetType = UNSET
    """What of that is not the program's, as CUDA itself takes it: an estimate."""
    fits: bool
    """Whether no request fails with the settings that were asked about, and what was reserved
    before the recording has room."""
    simulated: Outcome
    """What the allocator makes of the program there, up to where it runs out of memory."""
    failed: FailedRequest | None
    """The first request that fails; null if none does."""
    stopped_event: int | None
    """The event with whose request the simulation ends, as it did not fail in the recording; null
    if it does not end before the recording."""
    exactness: Exactness
    """Whether that is exact."""
    others: tuple[str, ...]
    """Where it does not fit: other settings with which it would, of some 30, the best first."""


class DeviceFits(OfBackend, frozen=True, kw_only=True):
    """What one device's program needs."""

    device: int
    first_event: int
    events: int
    settings: str
    """What was simulated, as PYTORCH_CUDA_ALLOC_CONF spells it; empty for PyTorch's defaults."""
    recorded_settings: str | None
    """Those of the recording; null if the file names none, and PyTorch's defaults are taken."""
    need: Need
    """What these settings need."""
    least: Need
    """What the settings need that need least, of some 30; the same if none needs less."""
    cards: tuple[Fit, ...]
    """One for each size that was asked about, in the order of the command line."""
    exactness: Exactness
    """`exact` if all of these are."""
    trusted: bool
    reasons: tuple[str, ...]
    """Of all of these."""


class FitsReport(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.fits/1"):
    """What `memreplay fits` found."""

    file: str
    truncated: bool
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceFits, ...]
