"""List a device's allocations and frees by torch.profiler's categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import memreplay._core as _core
from memreplay.analysis.categories.rules import DEFAULT_RULES
from memreplay.analysis.groups.dimensions import Dimensions
from memreplay.analysis.groups.ways.base import Known
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages
from memreplay.analysis.selecting.selection import Selection
from memreplay.analysis.trust.trust import verdict
from memreplay.errors import UsageError
from memreplay.export.viewers.records import CategoryEvents
from memreplay.export.viewers.sampling import US, event_ns, is_timed, untimed_note

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

# torch.profiler's columns, in order. The last one is for memory without a category.
COLUMNS = (
    "parameter",
    "optimizer state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd detail",
    "unknown",
)
# Maps default rules to columns. A rule whose name is neither here nor in COLUMNS goes to the column
# for unknown memory. To torch.profiler, buffers that a model reads are inputs.
GUESSED = {
    "parameters": "parameter",
    "buffers": "input",
    "optimizer state": "optimizer state",
    "optimizer temporaries": "temporary",
    "parameters (likely)": "parameter",
    "optimizer state (likely)": "optimizer state",
    "gradients (likely)": "gradient",
    "activations or inputs (likely)": "activation",
    "data loading": "input",
    "activations": "activation",
    "attention": "activation",
    "KV cache": "activation",
    "backward": "gradient",
    "FSDP/DDP": "temporary",
    "NCCL": "temporary",
    "weights (cast)": "temporary",
}
# Maps the recorder's categories to columns.
RECORDED = {
    "parameters": "parameter",
    "unsharded parameters": "parameter",
    "buffers": "input",
    "gradients": "gradient",
    "unsharded gradients": "gradient",
    "inputs": "input",
    "activations": "activation",
}
_UNCOUNTED = _core.ABSENT_ID - 1  # the end of an allocation that was freed before the first event
FIRST_US_LIMIT = 2**62 // US


@takes(selection=Selection)
def category_events(snap: Snapshot, selection: Selection) -> CategoryEvents:
    """Return the allocations and frees of the one selected device.

    Uses the categories that memreplay's recorder noted, if any, otherwise guessed ones. A custom
    category goes to the column with its name (`gradient`, in any case), or else to unknown. Raises
    UsageError for reserved memory and for several devices.
    """
    if selection.measure == "reserved":
        raise UsageError("reserved memory has no categories; choose another --measure")
    if len(snap.devices) != 1:
        there = ", ".join(map(str, snap.devices)) or "none"
        raise UsageError(f"this format holds one device; choose it with --device: {there}")
    (usage,) = chosen_usages(snap, selection)
    replay, native = usage.replay, usage.native
    rules = DEFAULT_RULES if selection.rules is None else selection.rules
    dimensions = Dimensions(Known(snap, rules))
    keys = dimensions.keys(usage, "category")
    allocs = np.flatnonzero(np.asarray(native.counted()))
    blocks = np.flatnonzero(np.asarray(native.carried_ends()) != _UNCOUNTED)
    numbers = [np.asarray(one) for one in keys.numbers(allocs.data, blocks.data)]
    recorded = snap.recorded is not None
    names = [
        dimensions.label(usage, "category", name).text for name in memoryview(keys.names()).tolist()
    ]
    column = np.array([column_of(name, recorded=recorded) for name in names], dtype=np.uint8)
    of_alloc, of_block = (column[one] for one in numbers)
    sizes = np.asarray(native.weights())[allocs]
    carried = np.asarray(native.carried_weights())[blocks]
    ends = np.asarray(native.ends())[allocs]
    block_ends = np.asarray(native.carried_ends())[blocks]
    ended, block_ended = ends != _core.ABSENT_ID, block_ends != _core.ABSENT_ID
    # Put ends before beginnings, so that a stable sort keeps this order among equal events.
    event = np.concatenate([block_ends[block_ended], ends[ended], allocs.astype(np.uint32)])
    order = np.argsort(event, kind="stable")
    timed = is_timed(replay)
    return CategoryEvents(
        device=replay.device,
        measure=selection.measure,
        exactness=verdict(snap, usage).exactness,
        timed=timed,
        carried_over_bytes=carried,
        carried_category=of_block,
        at_ns=_epoch_ns(replay)[event[order]] if len(order) else np.zeros(0, dtype=np.int64),
        bytes=np.concatenate([-carried[block_ended], -sizes[ended], sizes])[order],
        category=np.concatenate([of_block[block_ended], of_alloc[ended], of_alloc])[order],
        is_free=order < len(event) - len(allocs),
        recorded=recorded,
        notes=untimed_note(replay),
        truncated=snap.truncation is not None,
    )


def column_of(category: str, *, recorded: bool) -> int:
    """Return the column number of a category."""
    name = (RECORDED if recorded else GUESSED).get(category, category.lower())
    return COLUMNS.index(name) if name in COLUMNS else len(COLUMNS) - 1


def _epoch_ns(replay: Replay) -> NDArray[np.int64]:
    """Return each event's time in nanoseconds since the epoch, or since the start without times."""
    if not is_timed(replay):
        return np.asarray(event_ns(replay, None))
    bounds = replay.time_range
    assert bounds is not None
    first = bounds[0]
    # A bogus time may not fit in 64 bits as nanoseconds.
    base = first * US if 0 <= first < FIRST_US_LIMIT else 0
    return np.asarray(event_ns(replay, first)) + base
