"""The results of `memreplay simulate`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.simulating.records import Candidate, Changed, FailedRequest
from memreplay.snapshot.model import Exactness, OfBackend
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_allocator import Outcome


class DeviceSimulation(OfBackend, frozen=True, kw_only=True):
    """One device's program, as it was recorded and as it was simulated."""

    device: int
    first_event: int
    events: int
    settings: str
    """What was simulated, as PYTORCH_CUDA_ALLOC_CONF spells it; empty for PyTorch's defaults. With
    `--search` the best that was found."""
    recorded_settings: str | None
    """Those of the recording; null if the file names none, and PyTorch's defaults are taken."""
    total_bytes: int | None
    """What the driver has for the process in the simulation; null if there is no limit."""
    recorded_total_bytes: int | None
    """What it had in the recording, as far as the file tells; null if nothing is known."""
    context_bytes: int | UnsetType = UNSET
    """What the card of the simulation has besides for CUDA itself: an estimate. Absent if the card
    is not known."""
    changed: Changed | None
    """What was changed of the program itself; null for nothing."""
    recorded: Outcome
    """What the recording's own allocator made of the program."""
    simulated: Outcome
    """What the simulated one makes of it."""
    failed: FailedRequest | None
    """The first request that fails in the simulation; null if none does."""
    stopped_event: int | None
    """The event whose request fails here and did not in the recording: the simulation ends with it;
    null if there is none."""
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]
    candidates: tuple[Candidate, ...] | UnsetType = UNSET
    """With `--search`: all settings that were tried, the best first."""


class SimulateReport(
    Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.simulate/1"
):
    """What `memreplay simulate` found."""

    file: str
    truncated: bool
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceSimulation, ...]
