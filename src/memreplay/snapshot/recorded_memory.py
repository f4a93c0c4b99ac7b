"""Validate the recorder's samples of card and host memory, because the file is untrusted."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct, ValidationError, convert

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memreplay.snapshot.snapshot import Snapshot

Text = Annotated[str, Meta(max_length=4096)]
Bytes = Annotated[int, Meta(ge=0, lt=2**62)]
Times = Annotated[tuple[Bytes, ...], Meta(min_length=1, max_length=100_000)]
Column = tuple[Bytes, ...]
MaybeColumn = tuple[Bytes | None, ...]
NEAR_US = 2_000_000  # maximum distance of a sample from the moment that it stands for


class CardProcess(Record, frozen=True):
    """A process that held memory on a card, as the driver listed it."""

    pid: Annotated[int, Meta(ge=0, lt=2**32)]
    """Its process id. In a container, it's that of the host."""
    name: Text
    """The program's name without its folder; "" if unknown."""
    bytes: Bytes | None
    """Its memory on the card; null if the driver doesn't say."""
    is_recorded: bool
    """Whether it's the recorded process."""


class CardUse(Record, frozen=True, kw_only=True):
    """Who used a card's memory at one moment. `reserved_bytes`, `other_bytes`, `outside_bytes` and
    `free_bytes` add up to `total_bytes`, unless the driver counts some memory for two processes.
    """

    device: int
    time_us: int
    """When this was measured."""
    at_oom: bool
    """Whether this is the moment of the failed request; otherwise it's when the file was written.
    """
    is_part: bool
    """Whether the device is a part of a card (MIG)."""
    total_bytes: int
    """The card's memory."""
    free_bytes: int
    """Free memory, as the driver says."""
    reserved_bytes: int
    """Memory reserved by PyTorch's allocator in this process."""
    other_bytes: int | None
    """Memory of other processes; null if unknown."""
    outside_bytes: int
    """Memory that this process took outside PyTorch's allocator. If `other_bytes` is null, it
    includes other processes.
    """
    outside_peak_bytes: int
    """The most that `outside_bytes` was at any sample of the recording."""
    processes: tuple[CardProcess, ...]
    """The processes on the card when the file was written, the largest first."""
    processes_missing: str
    """Why no processes are listed; "" if they are."""


class HostUse(Record, frozen=True, kw_only=True):
    """The host memory of the recorded process. Null means unknown."""

    time_us: int
    """When this was measured."""
    resident_bytes: int | None
    """Memory that the process had in RAM."""
    resident_peak_bytes: int | None
    """The most that it had since it began."""
    shared_bytes: int | None
    """The part of `resident_bytes` that is shared memory."""
    shared_peak_bytes: int | None
    """The most shared memory at any sample of the recording."""
    pinned_active_bytes: int | None
    """Pinned memory that tensors used; null as well if this PyTorch counts it wrongly."""
    pinned_bytes: int | None
    """Pinned memory that PyTorch's allocator held, in use or cached."""
    pinned_peak_bytes: int | None
    """The most that it held."""
    pinned_events: int = 0
    """How many events of pinned memory the file has. `memreplay export --host` extracts them."""


class CardSamples(Struct, frozen=True):
    """The samples of one card, as in the file (docs/format.md)."""

    device: Annotated[int, Meta(ge=0, lt=1024)]
    total_bytes: Annotated[int, Meta(gt=0, lt=2**62)]
    is_part: bool
    times_us: Times
    free_bytes: Column
    reserved_bytes: Column
    other_bytes: MaybeColumn
    processes: Annotated[tuple[CardProcess, ...], Meta(max_length=1024)]
    processes_missing: Text

    @property
    def valid(self) -> bool:
        """Whether columns are equally long, and nobody has more than the card."""
        columns = (self.free_bytes, self.reserved_bytes, self.other_bytes)
        return all(len(one) == len(self.times_us) for one in columns) and all(
            max((one or 0 for one in column), default=0) <= self.total_bytes for column in columns
        )

    def outside(self, at: int) -> int:
        """Return the bytes outside PyTorch's allocator at a sample. They include other processes if
        these aren't known.
        """
        known = self.free_bytes[at] + self.reserved_bytes[at] + (self.other_bytes[at] or 0)
        return max(0, self.total_bytes - known)

    def nearest(self, time_us: int | None) -> int | None:
        """Return the sample nearest to this time; None if there is none nearby."""
        if time_us is None:
            return None
        found = self.closest(time_us)
        return found if abs(self.times_us[found] - time_us) <= NEAR_US else None

    def closest(self, time_us: int) -> int:
        """Return the sample closest to this time, however far it is; of two, the earlier one."""
        times = self.times_us
        return min(range(len(times)), key=lambda i: (abs(times[i] - time_us), times[i]))

    def fullest(self, start: int | None, ends: Sequence[int | None]) -> list[int | None]:
        """Return each bucket's sample with the least free memory, or without samples in it, the
        last one before. None if there is none. Buckets follow each other from `start`, and include
        their ends; a start or end of None has no bound.
        """
        # A clock that was set back leaves times out of order.
        order = sorted(range(len(self.times_us)), key=lambda i: self.times_us[i])
        times = [self.times_us[i] for i in order]
        found: list[int | None] = []
        begin = 0 if start is None else bisect_left(times, start)
        for end in ends:
            stop = len(times) if end is None else bisect_right(times, end)
            inside = order[begin:stop] or order[:stop][-1:]
            found.append(min(inside, key=self.free_bytes.__getitem__, default=None))
            begin = max(begin, stop)
        return found

    def use(self, oom_us: int | None = None) -> CardUse:
        """Return who used the card at a failed request, or when the file was written."""
        near = self.nearest(oom_us)
        at = len(self.times_us) - 1 if near is None else near
        known = self.other_bytes[at] is not None
        others = range(len(self.times_us))
        alike = [i for i in others if (self.other_bytes[i] is not None) == known]
        return CardUse(
            device=self.device,
            time_us=self.times_us[at],
            at_oom=near is not None,
            is_part=self.is_part,
            total_bytes=self.total_bytes,
            free_bytes=self.free_bytes[at],
            reserved_bytes=self.reserved_bytes[at],
            other_bytes=self.other_bytes[at],
            outside_bytes=self.outside(at),
            outside_peak_bytes=max(map(self.outside, alike)),
            processes=self.processes,
            processes_missing=self.processes_missing,
        )


class HostSamples(Struct, frozen=True):
    """The samples of the process's host memory, as in the file (docs/format.md)."""

    times_us: Times
    resident_bytes: MaybeColumn
    shared_bytes: MaybeColumn
    pinned_active_bytes: MaybeColumn
    pinned_bytes: MaybeColumn
    resident_peak_bytes: Bytes | None
    pinned_peak_bytes: Bytes | None
    pinned_events: Annotated[int, Meta(ge=0, lt=2**62)] = 0

    @property
    def valid(self) -> bool:
        columns = (self.resident_bytes, self.shared_bytes, self.pinned_active_bytes)
        return all(len(one) == len(self.times_us) for one in (*columns, self.pinned_bytes))

    def use(self) -> HostUse:
        """Return the memory when the file was written."""
        return HostUse(
            time_us=self.times_us[-1],
            resident_bytes=self.resident_bytes[-1],
            resident_peak_bytes=self.resident_peak_bytes,
            shared_bytes=self.shared_bytes[-1],
            shared_peak_bytes=max(
                (one for one in self.shared_bytes if one is not None), default=None
            ),
            pinned_active_bytes=self.pinned_active_bytes[-1],
            pinned_bytes=self.pinned_bytes[-1],
            pinned_peak_bytes=self.pinned_peak_bytes,
            pinned_events=self.pinned_events,
        )


def card_samples(snap: Snapshot) -> tuple[CardSamples, ...]:
    """Return the samples of each card, by device; empty if they are missing or invalid."""
    noted = snap.recorder.get("card_memory")
    if noted is None:
        return ()  # before msgspec reads the fields' types, which takes a millisecond
    try:
        found = convert(noted, tuple[CardSamples, ...])
    except ValidationError:
        return ()
    devices = {one.device for one in found}
    if len(devices) < len(found) or not all(one.valid for one in found):
        return ()
    return tuple(sorted(found, key=lambda one: one.device))


def card_uses(snap: Snapshot, ooms: Mapping[int, int | None] | None = None) -> tuple[CardUse, ...]:
    """Return who used each card's memory when the file was written, or on devices in `ooms`, at
    these times.
    """
    return tuple(one.use((ooms or {}).get(one.device)) for one in card_samples(snap))


def host_use(snap: Snapshot) -> HostUse | None:
    """Return the process's host memory; None if it's missing or invalid."""
    noted = snap.recorder.get("host_memory")
    if noted is None:
        return None
    try:
        found = convert(noted, HostSamples)
    except ValidationError:
        return None
    return found.use() if found.valid else None
