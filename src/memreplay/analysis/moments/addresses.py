"""Find the successive allocations at an address."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import memreplay._core as _core
from memreplay.engine.query._vectors import vector
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.model import When
    from memreplay.snapshot.replay import Usage

_UNCOUNTED = _core.ABSENT_ID - 1  # end value of an allocation that was freed before the first event


class Life(NamedTuple):
    """One allocation at an address. `row` is its alloc event, or its block number if `carried`.
    `number`, from 1, is its position among all `total` allocations at the address.
    """

    row: int
    carried: bool
    number: int
    total: int


def life_of(usage: Usage, when: When) -> Life:
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
        number = _numbered_by_viewer(usage, when, blocks, events)
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
        return Life(blocks[at], carried=True, number=at + 1, total=total)
    return Life(events[at - len(blocks)], carried=False, number=at + 1, total=total)


def event_of(usage: Usage, life: Life) -> int:
    """Return the first event after which the allocation is live: its alloc, or the start."""
    replay = usage.replay
    return replay.start if life.carried else life.row + replay.first_event


def _numbered_by_viewer(usage: Usage, when: When, blocks: Vector, events: Vector) -> int:
    """Return the position, from 1, of the allocation that PyTorch's viewer shows with this number.

    MemoryViz.js (`annotate_snapshot`) numbers the allocations at an address by the number of
    completed frees before them, in the order of all devices' traces.
    """
    replay, address, wanted = usage.replay, when.value, int((when.name or "")[1:])
    if replay.first_event:
        raise UsageError(
            f"{when.name} counts from the recording's first event; leave out --from, or"
            f" give {when.value:#x}#K, the K-th allocation in the range"
        )
    at = replay.vector("address", "Q")
    frees = _frees_of(replay.vector("action", "B"), at, address)
    earlier = replay.earlier("action", "B"), replay.earlier("address", "Q")
    before = len(_frees_of(*earlier, address))
    starts = replay.carried("address")
    numbers = [(before, starts[row] == address) for row in blocks]
    numbers += [
        (before + frees_before, at[row] == address)
        for row, frees_before in zip(events, frees.places(events), strict=True)
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


def _frees_of(actions: Vector, addresses: Vector, address: int) -> Vector:
    """Return the rows of an address's completed frees."""
    completed = _core.ACTIONS.index("free_completed")
    return ((actions == completed) & (addresses == address)).rows()


def _allocated(usage: Usage, address: int) -> Vector:
    replay, counted = usage.replay, vector(usage.counted)
    addresses, sizes = replay.vector("address", "Q"), replay.vector("size", "q")
    return ((counted != 0) & _within(addresses, sizes, address)).rows()


def _carried(usage: Usage, address: int) -> Vector:
    carried, counted = usage.replay.carried, vector(usage.carried_ends) != _UNCOUNTED
    return (counted & _within(vector(carried("address")), vector(carried("size")), address)).rows()


def _within(addresses: Vector, sizes: Vector, address: int) -> Vector:
    """Return which blocks contain the address. A block of zero bytes contains its own address."""
    beyond = address - addresses  # for addresses below the first byte, this wraps around
    inside = (addresses < address) & (beyond < sizes.higher(0).as_format("Q"))
    return (addresses == address) | inside
