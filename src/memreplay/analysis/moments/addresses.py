"""Finds the allocations that an address was in, one after the other."""

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

_UNCOUNTED = _core.ABSENT_ID - 1  # an end: let go of before the first event


class Life(NamedTuple):
    """One allocation: the number of its alloc event or, where it is `carried`, of its
    block; which of the address' allocations it is, from 1, and of how many."""

    row: int
    carried: bool
    number: int
    total: int


def life_of(snap: Snapshot, usage: Usage, when: When) -> Life:
    """The allocation that a moment of kind "address" means. Raises UsageError where there is none.

    Indices count from the first event that was read. The address may be anywhere in it. A number
    that begins with `_` counts as PyTorch's viewer does.
    """
    if usage.measure == "reserved":
        raise UsageError("reserved memory consists of segments, so it has no allocations to find")
    blocks, events = _carried(usage, when.value), _allocated(usage, when.value)
    device, total = usage.replay.device, len(blocks) + len(events)
    if not total:
        raise UsageError(
            f"device {device}: no allocation that was read and counts contained the address"
            f" {when.value:#x} in it"
        )
    if when.name and when.name.startswith("_"):
        number = _numbered_by_viewer(snap, usage, when, blocks, events)
    else:
        number = int(when.name or 1)
    if number == 0 or not -total <= number <= total:
        times = "once" if total == 1 else f"{total} times"
        raise UsageError(
            f"device {device}: {when.value:#x} is allocated {times}, counted from 1 (or from -1,"
            f" the last): there is no #{number}"
        )
    at = number - 1 if number > 0 else total + number
    if at < len(blocks):
        return Life(int(blocks[at]), carried=True, number=at + 1, total=total)
    return Life(int(events[at - len(blocks)]), carried=False, number=at + 1, total=total)


def event_of(usage: Usage, life: Life) -> int:
    """The event after which it is there first: its alloc, or the start."""
    replay = usage.replay
    return replay.start if life.carried else life.row + replay.first_event


def _numbered_by_viewer(
    snap: Snapshot,
    usage: Usage,
    when: When,
    blocks: NDArray[np.int64],
    events: NDArray[np.int64],
) -> int:
    """Which of the address' allocations, from 1, PyTorch's viewer shows with this number.

    MemoryViz.js (`annotate_snapshot`) numbers the events of an address by how many frees of it
    have completed before, over the traces of all devices, one trace after the other.
    """
    replay, address, wanted = usage.replay, np.uint64(when.value), int((when.name or "")[1:])
    if replay.first_event:
        raise UsageError(
            f"{when.name} counts from the first event of the recording: leave out --from, or give"
            f" {when.value:#x}#K, the K-th allocation that was read"
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
            f"device {replay.device}: no allocation that counts is b{when.value:x}{when.name} in"
            f" PyTorch's viewer: "
            + (f"at this address it has {shown}" if there else "none begins at this address")
        )
    return numbers.index((wanted, True)) + 1


def _frees_before(snap: Snapshot, device: int, address: np.uint64) -> int:
    """The completed frees of an address in the traces that stand before the device's."""
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
    """Whether it is the first byte, or any of them."""
    begin = addresses.astype(np.uint64)
    beyond = np.uint64(address) - begin  # wraps around below the first
    found: NDArray[np.bool_] = (begin == np.uint64(address)) | (
        (begin < np.uint64(address)) & (beyond < np.maximum(sizes, 0).astype(np.uint64))
    )
    return found
