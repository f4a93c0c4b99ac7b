"""The results of `memreplay diff`."""

from __future__ import annotations

from typing import Protocol

from memreplay.analysis.comparing.records import DiffRow, Side, Status
from memreplay.snapshot.model import (
    By,
    EventRange,
    Filters,
    MeasureName,
    When,
)
from memreplay.snapshot.record import Record


class OneSide(Protocol):
    """What is compared."""

    @property
    def bytes(self) -> int: ...
    @property
    def trusted(self) -> bool: ...


class Compared:
    """Two sides, and what follows of both."""

    __slots__ = ()
    base: OneSide
    new: OneSide

    @property
    def change_bytes(self) -> int:
        return self.new.bytes - self.base.bytes

    @property
    def trusted(self) -> bool:
        return self.base.trusted and self.new.trusted


class DeviceDiff(Record, Compared, frozen=True):
    """What changed on one device. The rows' changes, with `rest_change_bytes`, add up to
    `change_bytes`.

    `rows` are sorted by change, the largest first, whether it grew or shrank; those that did not
    change are left out unless they were asked for. `statuses` counts all of them. `device` is the
    new snapshot's, `base_device` the same unless each has one device alone.
    """

    device: int
    base_device: int
    measure: MeasureName
    base: Side
    new: Side
    rows: tuple[DiffRow, ...]
    rows_total: int
    rest_change_bytes: int
    statuses: dict[Status, int]


class DiffReport(Record, frozen=True):
    """What `memreplay diff` shows: an entry a device that both snapshots have.

    `only_base` and `only_new` are the devices that one of them has alone. `ranges` is which events
    each is of, where these are others.
    """

    base_file: str
    new_file: str
    measure: MeasureName
    by: By
    when: When
    exact: bool
    all_frames: bool
    devices: tuple[DeviceDiff, ...]
    only_base: tuple[int, ...] = ()
    only_new: tuple[int, ...] = ()
    truncated: bool = False
    filters: Filters | None = None
    ranges: tuple[EventRange, EventRange] | None = None
