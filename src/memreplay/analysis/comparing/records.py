"""Rows and sides of a comparison."""

from __future__ import annotations

from typing import Literal

from memreplay.snapshot.model import (
    Exactness,
    Frame,
    Label,
)
from memreplay.snapshot.record import Record

Status = Literal["grew", "shrank", "new", "gone", "same"]


class DiffRow(Record, frozen=True):
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


class Side(Record, frozen=True):
    """One device of one snapshot at the moment that is compared."""

    file: str
    bytes: int
    count: int
    event_index: int
    time_us: int | None
    exactness: Exactness
    trusted: bool
    reasons: tuple[str, ...]


LimitKind = Literal[
    "max_peak",
    "max_growth",
    "max_growth_bytes",
    "max_reserved",
    "max_fragmentation",
    "no_leaks",
    "no_oom",
]
