"""Finds the allocations that an address was in, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot.model import When
    from memreplay.snapshot.replay import Usage

_UNCOUNTED = _core.ABSENT_ID - 1  # an end: let go of before the first event


class Life(NamedTuple):
    """One allocation: the number of its alloc event or, where it is `carried`, of its
    block; which of the address' allocations it is, from 1, and of how many."""

    row: int
    carried: bool
    number: int
    total: int


def life_of(usage: Usage, when: When) -> Life:
    """The allocation that a moment of kind "address" means. Raises UsageError where there is none.

    Indices count from the first event that was read. The address may be anywhere in it.
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


def _rows(column: memoryview | int, n: int) -> NDArray[np.generic]:
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
