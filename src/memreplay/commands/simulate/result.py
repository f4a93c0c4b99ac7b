"""The result of `memreplay simulate`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.simulating.records import Candidate, Changed, FailedRequest, Fit, Need
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, OfBackend
from memreplay.snapshot.recorded_allocator import Outcome


class DeviceSimulation(OfBackend, frozen=True, kw_only=True):
    """One device's program, in the recording and in the simulation."""

    device: int
    first_event: int
    events: int
    settings: str
    """The simulated settings, in the form of PYTORCH_CUDA_ALLOC_CONF; empty for PyTorch's defaults.
    With `--search settings`, the best settings found."""
    recorded_settings: str | None
    """The recording's settings; null if the file has none and PyTorch's defaults are assumed."""
    program_memory_bytes: int | None
    """Memory that the driver has for the process in the simulation; null for no limit, or if the
    recording itself is simulated and doesn't show it.
    """
    recorded_program_memory_bytes: int | None
    """Memory that the driver had for the process in the recording; null if unknown."""
    context_bytes: int | UnsetType = UNSET
    """Memory on the simulated card that CUDA itself uses. Absent if the card is unknown."""
    context_measured: bool = False
    """Whether memreplay's recorder measured `context_bytes` on this card, as the memory outside
    PyTorch's allocator; otherwise it's an estimate.
    """
    changed: Changed | None
    """The change to the program; null if there is none."""
    recorded: Outcome | None
    """The result of the recording's own allocator; null if reserved memory isn't known, because the
    file doesn't show it or segment events are missing.
    """
    simulated: Outcome
    """What the simulated allocator did."""
    failed: FailedRequest | None
    """The first failed request in the simulation; null if there is none."""
    stopped_event: int | None
    """The event whose request ends the simulation, because it fails here but didn't in the
    recording; null if there is none.
    """
    exactness: Exactness
    """`exact` if all of this device's results are exact, including those for cards."""
    trusted: bool
    reasons: tuple[str, ...]
    candidates: tuple[Candidate, ...] | UnsetType = UNSET
    """With `--search settings`: all settings that were tried, best first."""
    need: Need | UnsetType = UNSET
    """With `--search card`, if the program isn't changed: how much memory the program needs with
    these settings.
    """
    least: Need | UnsetType = UNSET
    """How much memory the program needs with the best of about 30 settings; equal to `need` if none
    needs less.
    """
    cards: tuple[Fit, ...] | UnsetType = UNSET
    """With `--search card` or `--total-memory`: one entry per card, in the order given."""

    @property
    def fits(self) -> bool:
        """Whether the program fits on all given cards."""
        return self.cards is UNSET or all(card.fits for card in self.cards)


class SimulateReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.simulate/1"
):
    """The result of `memreplay simulate`."""

    file: str
    truncated: bool
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceSimulation, ...]

    def document(self) -> Document:
        from memreplay.commands.simulate.text import simulate_document

        return simulate_document(self)
