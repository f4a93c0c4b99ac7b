"""The results of `memreplay modules`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from memreplay.analysis.selecting.selection import Filters
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import Exactness, MeasureName, OfBackend, When
from memreplay.snapshot.record import Record

ModulesSort = Literal[
    "total",
    "parameters",
    "buffers",
    "gradients",
    "optimizer-state",
    "activations",
    "peak-forward",
    "peak-backward",
    "module",
]


class ModuleBytes(Record, frozen=True, kw_only=True):
    """One module with all that is in it. Its `*_bytes` up to `other_bytes` add up to
    `total_bytes`."""

    module: str | None
    """Its name, from the model's class on, as `named_modules()` has it; null for what is in no
    module."""
    depth: int
    """How deep it is: 1 for a model, and for what is in no module."""
    parameters_bytes: int
    """Parameters, and those that FSDP2 has made whole again."""
    buffers_bytes: int
    """Buffers."""
    gradients_bytes: int
    """Gradients of parameters."""
    optimizer_state_bytes: int
    """What an optimizer keeps of its parameters."""
    inputs_bytes: int
    """What was given to a model."""
    activations_bytes: int
    """What the backward pass waits for."""
    temporary_bytes: int
    """What the code that allocates it lets go of, too."""
    autograd_detail_bytes: int
    """What one node of the backward pass hands to the next, such as gradients of activations."""
    communication_bytes: int
    """What DDP and FSDP send and receive."""
    other_bytes: int
    """All else, and what nothing was noted of."""
    total_bytes: int
    """All of it. Those of `depth` 1 add up to `live_bytes` where `--top` cuts none."""
    own_bytes: int
    """What of it is in no module below this one; those of all modules add up to `live_bytes`."""
    peak_forward_bytes: int
    """The most that was ever live of what the module and those below it allocated in the forward
    pass."""
    peak_forward_event: int | None
    """The first event after which it was; null if that is nothing."""
    peak_backward_bytes: int
    """The same of the backward pass, what is computed again there included."""
    peak_backward_event: int | None
    """The first event after which it was; null if that is nothing."""


class DeviceModules(OfBackend, frozen=True, kw_only=True):
    """What one device held at the moment, by modules."""

    device: int
    measure: MeasureName
    exactness: Exactness
    event_index: int
    """The event after which it is so; `first_event` - 1 is the start."""
    time_us: int | None
    """That event's time; for the start the first event's."""
    start_us: int | None
    """The first time of the whole trace, with `--from` too."""
    live_bytes: int
    """What was live then, by the measure."""
    live_count: int
    """In how many allocations."""
    unknown_bytes: int
    """What nothing was noted of: it is among the `other_bytes` of what is in no module."""
    first_event: int
    events: int
    trace_events: int
    trusted: bool
    reasons: tuple[str, ...]
    modules_total: int
    """How many modules to that depth ever held anything, before `--top` cut them."""
    modules: tuple[ModuleBytes, ...]
    """Depth first; what is in no module comes last, and is not cut."""


class ModulesReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.modules/1"
):
    """What `memreplay modules` found."""

    file: str
    measure: MeasureName
    moment: When
    """The moment that was asked for."""
    depth: int
    """How deep modules are listed; 0 for all."""
    sort: ModulesSort
    """What they are sorted by, those of one module."""
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceModules, ...]

    def document(self) -> Document:
        from memreplay.commands.modules.text import modules_document

        return modules_document(self)
