"""The result of `memreplay modules`."""

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
    """One module, including everything below it.

    The `*_bytes` fields up to `other_bytes` add up to `total_bytes`.
    """

    module: str | None
    """The module's name in `named_modules()`, prefixed with the model's class; null for allocations
    outside modules.
    """
    depth: int
    """The module's depth, which is 1 for a model and for allocations outside modules."""
    parameters_bytes: int
    """Parameters, including those that FSDP2 has gathered."""
    buffers_bytes: int
    """Buffers."""
    gradients_bytes: int
    """Gradients of parameters."""
    optimizer_state_bytes: int
    """State that an optimizer keeps for the module's parameters."""
    inputs_bytes: int
    """Inputs of a model."""
    activations_bytes: int
    """Activations kept for the backward pass."""
    temporary_bytes: int
    """Temporary memory, released by the same code that allocated it."""
    autograd_detail_bytes: int
    """Data that autograd nodes pass on in the backward pass, such as gradients of activations."""
    communication_bytes: int
    """Data that DDP and FSDP send and receive."""
    other_bytes: int
    """Everything else, including allocations without a note."""
    total_bytes: int
    """Total. Modules of `depth` 1 add up to `live_bytes` unless `--top` omitted some."""
    own_bytes: int
    """The part of `total_bytes` that isn't in any module below this one. Over all modules, these
    parts add up to `live_bytes`.
    """
    peak_forward_bytes: int
    """Peak of the memory that the module and the modules below it allocated in the forward pass."""
    peak_forward_event: int | None
    """The first event after which usage is at its peak; null if nothing was allocated."""
    peak_backward_bytes: int
    """Peak of the memory that these modules allocated in the backward pass, including
    recomputation.
    """
    peak_backward_event: int | None
    """The first event after which usage is at its peak; null if nothing was allocated."""


class DeviceModules(OfBackend, frozen=True, kw_only=True):
    """One device's live set at the moment, by module."""

    device: int
    measure: MeasureName
    exactness: Exactness
    event_index: int
    """The moment is right after this event; `first_event` - 1 is the start."""
    time_us: int | None
    """Time of that event; for the start, the time of the first event."""
    start_us: int | None
    """First time of the whole trace, even with `--from`."""
    live_bytes: int
    """Bytes live at the moment, by the measure."""
    live_count: int
    """Number of live allocations."""
    unknown_bytes: int
    """Bytes for which the recorder has no note. These bytes are included in `other_bytes` of the
    allocations outside modules.
    """
    first_event: int
    events: int
    trace_events: int
    trusted: bool
    reasons: tuple[str, ...]
    modules_total: int
    """Number of modules up to the report's depth that ever held memory, before applying `--top`."""
    modules: tuple[ModuleBytes, ...]
    """The modules, depth first. Allocations outside modules come last and are always included."""


class ModulesReport(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.modules/1"
):
    """The result of `memreplay modules`."""

    file: str
    measure: MeasureName
    moment: When
    """The requested moment."""
    depth: int
    """Maximum depth of the listed modules; 0 for all."""
    sort: ModulesSort
    """Sort order of the modules within each parent."""
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    devices: tuple[DeviceModules, ...]

    def document(self) -> Document:
        from memreplay.commands.modules.text import modules_document

        return modules_document(self)
