"""What came and went on a device, event by event, by the categories of torch.profiler."""

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

# In the order of its columns; the last is what it puts down to nothing.
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
# What is not in these, and has none of the names above, is unknown. Of the default rules; buffers
# that a model reads are inputs to torch.profiler.
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
# Of memreplay's recorder.
RECORDED = {
    "parameters": "parameter",
    "unsharded parameters": "parameter",
    "buffers": "input",
    "gradients": "gradient",
    "unsharded gradients": "gradient",
    "inputs": "input",
    "activations": "activation",
}
_UNCOUNTED = _core.ABSENT_ID - 1  # an end: let go of before the first event
FIRST_US_LIMIT = 2**62 // US


@takes(selection=Selection)
def category_events(snap: Snapshot, selection: Selection) -> CategoryEvents:
    """The allocations and frees of the one device that was read.

    By the categories that memreplay's recorder noted, where it did, else by those that the rules
    guess. A category of one's own goes to the column that it is called after (`gradient`, in any
    case), else to unknown. Raises UsageError for reserved memory, and for several devices.
    """
    if selection.measure == "reserved":
        raise UsageError("reserved memory consists of segments, which have no categories")
    if len(snap.devices) != 1:
        there = ", ".join(map(str, snap.devices)) or "none"
        raise UsageError(f"it can only hold one device: give --device; this snapshot has: {there}")
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
    # What ends stands before what begins, so that a stable sort leaves it there in the same event.
    event = np.concatenate([block_ends[block_ended], ends[ended], allocs.astype(np.uint32)])
    order = np.argsort(event, kind="stable")
    timed = is_timed(replay)
    return CategoryEvents(
        device=replay.device,
        measure=selection.measure,
        exactness="exact" if verdict(snap, usage).exact else "estimated",
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
    """The number of the column that a category goes to."""
    name = (RECORDED if recorded else GUESSED).get(category, category.lower())
    return COLUMNS.index(name) if name in COLUMNS else len(COLUMNS) - 1


def _epoch_ns(replay: Replay) -> NDArray[np.int64]:
    """When each event is: nanoseconds since the epoch, or since the start where there are no
    times."""
    if not is_timed(replay):
        return event_ns(replay, None)
    bounds = replay.time_range
    assert bounds is not None
    first = bounds[0]
    # A made-up time may be one that 64 bits of nanoseconds do not hold.
    base = first * US if 0 <= first < FIRST_US_LIMIT else 0
    return event_ns(replay, first) + base
