"""The results of `memreplay simulate`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.simulating.records import Candidate, Changed, FailedRequest
from memreplay.render.document import Answer, Document
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
    """`exact` if all of this is, what is said of cards, too."""
    trusted: bool
    reasons: tuple[str, ...]
    candidates: tuple[Candidate, ...] | UnsetType = UNSET
    """With `--search`: all settings that were tried, the best first."""
    need: Need | UnsetType = UNSET
    """With `--smallest`, and without a change of the program: what these settings need."""
    least: Need | UnsetType = UNSET
    """Likewise, what the settings need that need least, of some 30; the same if none needs less."""
    cards: tuple[Fit, ...] | UnsetType = UNSET
    """With `--smallest` or `--total-memory`: one for each card that was asked about, in the order
    of the command line."""

    @property
    def fits(self) -> bool:
        """Whether the program fits on all cards that were asked about."""
        return self.cards is UNSET or all(card.fits for card in self.cards)


class SimulateReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.simulate/1"
):
    """What `memreplay simulate` found."""

    file: str
    truncated: bool
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceSimulation, ...]

    def document(self) -> Document:
        from memreplay.commands.simulate.text import simulate_document

        return simulate_document(self)
