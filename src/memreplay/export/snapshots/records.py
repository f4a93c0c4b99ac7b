"""What a cut snapshot holds, and what it lacks."""

from __future__ import annotations

from memreplay.snapshot.record import Record


class SlicedDevice(Record, frozen=True):
    """One device's part of a slice.

    `first_event` and `events` are of the range in the file; `written_events` are left of them, and
    before these stand `leading_events` for what was live and would not be told otherwise. Of
    allocations below --min-bytes, the range's and those live before it, `small_allocations` and
    `small_bytes` were left out.

    Where the range ends between the request of a free and its completion, `pending_blocks` of
    `pending_bytes` stand in the slice's segments as pending, and PyTorch's viewer does not show
    them at any time. `settled_stop` is the last earlier end of the range where none is; None where
    there is no such end.
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
    """A key of the snapshot that memreplay doesn't read and that isn't in the slice: its name as
    JSON, or None for all such keys, and why."""

    key: str | None
    why: str


class Sliced(Record, frozen=True):
    """All devices of a slice, ascending. `alone`: the file holds other data than the snapshot,
    which isn't in the slice."""

    file: str
    devices: tuple[SlicedDevice, ...]
    left_out: tuple[LeftOut, ...] = ()
    alone: bool = False
