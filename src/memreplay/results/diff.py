"""The results of `memreplay diff`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from memreplay.brief import Brief
from memreplay.model import By, EventRange, Exactness, Filters, Frame, Label, MeasureName, When

Status = Literal["grew", "shrank", "new", "gone", "same"]


@dataclass(frozen=True, slots=True)
class DiffRow(Brief):
    """One group in both snapshots: its bytes and allocations in each.

    `label`, `frames`, `user`, `libraries` and `of` are as in Group, of the new snapshot where it
    has the group. A row may be of several groups, `base_groups` and `new_groups` of each: then
    `frames` is what they have in common. `below` these: of functions that they call, which one
    snapshot alone has (split off, inlined), not of the first line itself.
    """

    label: str
    frames: tuple[Frame, ...]
    user: tuple[int, ...]
    base_bytes: int
    new_bytes: int
    base_count: int
    new_count: int
    status: Status
    of: tuple[Label, ...] = ()
    base_groups: int = 0
    new_groups: int = 0
    below: bool = False
    libraries: tuple[int, ...] = ()

    @property
    def change_bytes(self) -> int:
        return self.new_bytes - self.base_bytes


@dataclass(frozen=True, slots=True)
class Side(Brief):
    """One device of one snapshot at the moment that is compared."""

    file: str
    bytes: int
    count: int
    event_index: int
    time_us: int | None
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]


class OneSide(Protocol):
    """What is compared."""

    @property
    def bytes(self) -> int: ...
    @property
    def trusted(self) -> bool: ...


class Compared(Brief):
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


@dataclass(frozen=True, slots=True)
class DeviceDiff(Compared):
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


@dataclass(frozen=True, slots=True)
class DiffReport(Brief):
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
