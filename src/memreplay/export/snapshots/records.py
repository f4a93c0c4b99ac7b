"""Describe what a cut snapshot contains and what was left out."""

from __future__ import annotations

from memreplay.snapshot.record import Record


class SlicedDevice(Record, frozen=True):
    """One device's part of a slice.

    `first_event` and `events` describe the range in the file. `written_events` of them are in the
    slice. They are preceded by `leading_events`, which allocate live blocks that no segment shows.
    `small_allocations` and `small_bytes` count the allocations that were left out because they were
    too small, including those live before the range.

    If the range ends between a free's request and its completion, the block is pending:
    `pending_blocks` and `pending_bytes` count these blocks, which PyTorch's viewer never shows.
    `settled_stop` is the last earlier position at which the range could end without pending blocks,
    or None.
    """

    device: int
    first_event: int
    events: int
    written_events: int
    leading_events: int
    small_allocations: int
    small_bytes: int
    pending_blocks: int
    pending_bytes: int
    settled_stop: int | None


class LeftOut(Record, frozen=True):
    """A key that memreplay doesn't read and that isn't in the slice.

    `name` is the key as JSON, or None if this is about all such keys. The other field is the
    reason.
    """

    key: str | None
    why: str


class Sliced(Record, frozen=True):
    """All of a slice's devices, in ascending order.

    `alone`: whether the slice leaves out other data in the file.
    """

    file: str
    devices: tuple[SlicedDevice, ...]
    left_out: tuple[LeftOut, ...] = ()
    alone: bool = False
