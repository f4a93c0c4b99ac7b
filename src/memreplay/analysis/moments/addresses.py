"""Find the successive allocations at an address."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.engine.read.column import Column
    from memreplay.snapshot.model import When
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot

_UNCOUNTED = _core.ABSENT_ID - 1  # end value of an allocation that was freed before the first event


class Life(NamedTuple):
    """One allocation at an address. `row` is its alloc event, or its block number if `carried`.
    `number`, from 1, is its position among all `total` allocations at the address.
    """

    row: int
    carried: bool
    number: int
    total: int


def life_of(snap: Snapshot, usage: Usage, when: When) -> Life:
    """Return the allocation for a moment of kind "address". Raises UsageError if there is none.

    Events are numbered from the first selected one. The address can be anywhere in the block. A
    number after `_` is interpreted as in PyTorch's viewer.
    """
    if usage.measure == "reserved":
        raise UsageError("reserved memory has no allocations to look up; choose another --measure")
    blocks, events = _carried(usage, when.value), _allocated(usage, when.value)
    device, total = usage.replay.device, len(blocks) + len(events)
    if not total:
        raise UsageError(
            f"device {device}: no selected allocation contains the address {when.value:#x}"
        )
    if when.name and when.name.startswith("_"):
        number = _numbered_by_viewer(snap, usage, when, blocks, events)
    else:
        number = int(when.name or 1)
    if number == 0 or not -total <= number <= total:
        times = "once" if total == 1 else f"{total} times"
        raise UsageError(
            f"device {device}: {when.value:#x} is allocated {times}, numbered from 1 (or from -1,"
            f" the last): there is no #{number}"
        )
    at = number - 1 if number > 0 else total + number
    if at < len(blocks):
        return Life(int(blocks[at]), carried=True, number=at + 1, total=total)
    return Life(int(events[at - len(blocks)]), carried=False, number=at + 1, total=total)


def event_of(usage: Usage, life: Life) -> int:
    """Return the first event after which the allocation is live: its alloc, or the start."""
    replay = usage.replay
    return replay.start if life.carried else life.row + replay.first_event


def _numbered_by_viewer(
    snap: Snapshot,
    usage: Usage,
    when: When,
    blocks: NDArray[np.int64],
    events: NDArray[np.int64],
) -> int:
    """Return the position, from 1, of the allocation that PyTorch's viewer shows with this number.

    MemoryViz.js (`annotate_snapshot`) numbers the allocations at an address by the number of
    completed frees before them, in the order of all devices' traces.
    """
    replay, address, wanted = usage.replay, np.uint64(when.value), int((when.name or "")[1:])
    if replay.first_event:
        raise UsageError(
            f"{when.name} counts from the recording's first event; leave out --from, or"
            f" give {when.value:#x}#K, the K-th allocation in the range"
        )
    frees = _frees_of(replay.column("action"), replay.column("address"), replay.events, address)
    before = _frees_before(snap, replay.device, address)
    starts = _rows(replay.carried("address"), int(blocks.max(initial=-1)) + 1)
    numbers = [(before, starts[row] == address) for row in blocks.tolist()]
    at = np.asarray(replay.column("address"))
    numbers += [
        (before + int(np.searchsorted(frees, row)), at[row] == address) for row in events.tolist()
    ]
    there = [number for number, starts_here in numbers if starts_here]
    if wanted not in there:
        shown = f"{min(there)} to {max(there)}" if len(set(there)) > 1 else str(*set(there))
        raise UsageError(
            f"device {replay.device}: no selected allocation is b{when.value:x}{when.name}"
            " in PyTorch's viewer: "
            + (
                f"at this address it has {shown}"
                if there
                else "no allocation starts at this address"
            )
        )
    return numbers.index((wanted, True)) + 1


def _frees_before(snap: Snapshot, device: int, address: np.uint64) -> int:
    """Return the number of completed frees at an address in the traces before the device's."""
    rows = snap.events
    first = int(np.argmax(rows.device == device)) if len(rows) else 0
    return len(_frees_of(rows.action.data, rows.address.data, first, address))


def _frees_of(
    actions: memoryview | Column | int,
    addresses: memoryview | Column | int,
    n: int,
    address: np.uint64,
) -> NDArray[np.int64]:
    completed = _core.ACTIONS.index("free_completed")
    which = (_rows(actions, n)[:n] == completed) & (_rows(addresses, n)[:n] == address)
    found: NDArray[np.int64] = np.flatnonzero(which)
    return found


def _allocated(usage: Usage, address: int) -> NDArray[np.int64]:
    replay, counted = usage.replay, np.asarray(usage.counted)
    addresses = _rows(replay.column("address"), len(counted))
    sizes = _rows(replay.column("size"), len(counted))
    found: NDArray[np.int64] = np.flatnonzero((counted != 0) & _within(addresses, sizes, address))
    return found


def _carried(usage: Usage, address: int) -> NDArray[np.int64]:
    replay = usage.replay
    addresses, sizes = np.asarray(replay.carried("address")), np.asarray(replay.carried("size"))
    counted = np.asarray(usage.carried_ends) != _UNCOUNTED
    found: NDArray[np.int64] = np.flatnonzero(counted & _within(addresses, sizes, address))
    return found


def _rows(column: memoryview | Column | int, n: int) -> NDArray[np.generic]:
    return np.broadcast_to(np.array(column), n) if isinstance(column, int) else np.asarray(column)


def _within(
    addresses: NDArray[np.generic], sizes: NDArray[np.generic], address: int
) -> NDArray[np.bool_]:
    """Return which blocks contain the address. A block of zero bytes contains its own address."""
    begin = addresses.astype(np.uint64)
    beyond = np.uint64(address) - begin  # for addresses below the first byte, this wraps around
    found: NDArray[np.bool_] = (begin == np.uint64(address)) | (
        (begin < np.uint64(address)) & (beyond < np.maximum(sizes, 0).astype(np.uint64))
    )
    return found
