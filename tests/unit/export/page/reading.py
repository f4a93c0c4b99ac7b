"""Read a page back slowly, as its script does: columns, allocations, groups."""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

import memreplay as mr
from memreplay.export.page.building import page_data
from memreplay.export.page.coding import Coded
from memreplay.export.page.pages import page_of
from memreplay.export.page.records import PageData, PageDevice, PageGroups
from memreplay.render.record_json import render_json
from memreplay.snapshot.model import MeasureName


def decoded(data: bytes, one: Coded) -> list[int]:
    """Return the numbers, assembled from their planes one by one."""
    found: list[int] = []
    for row in range(one.rows):
        folded = 0
        for plane in range(one.width):
            folded |= data[one.at + plane * one.rows + row] << (8 * plane)
        number = folded // 2 if folded % 2 == 0 else -(folded + 1) // 2
        before = found[-1] if one.differences and found else 0
        found.append(before + number)
    if one.fresh is None:
        return found
    fresh = decoded(data, one.fresh)
    numbers: list[int] = []
    for back in found:
        numbers.append(numbers[-back] if back else fresh.pop(0))
    assert not fresh
    return numbers


class Life(NamedTuple):
    """An allocation of a page."""

    begin: int
    end: int
    let_go: int
    requested: int
    block: int
    stack: int
    pool: tuple[int, int] | None
    stream: str | None
    address: int | None

    def live(self, event: int, measure: MeasureName) -> bool:
        """Return whether the allocation is live after an event, counted from the first that was
        read.
        """
        end = self.let_go if measure in ("held", "allocated") else self.end
        return self.begin <= event < end

    def bytes(self, measure: MeasureName) -> int:
        """Return the allocation's bytes in each measure that counts it."""
        return self.block if measure in ("active", "allocated") else self.requested


class Piece(NamedTuple):
    """A part of a segment."""

    begin: int
    end: int
    address: int
    size: int
    segment: int
    pool: tuple[int, int] | None
    stream: str | None
    expandable: bool
    small: bool


class Read:
    """A snapshot's page, with its columns by position."""

    def __init__(self, snap: mr.Snapshot, **options: Any) -> None:
        made = page_data(snap, **options)
        self.data: PageData = made[0]
        self.bytes = zlib.decompress(made[1])
        assert len(self.bytes) == self.data.bytes
        # The JSON is valid and has no numbers that a script would round.
        text = render_json(page_of([made])[0])
        check_numbers(json.loads(text.encode("ascii")))

        self._columns: dict[Coded, list[int]] = {}
        self._lives: dict[int, list[Life]] = {}

    def column(self, coded: Coded) -> list[int]:
        if coded not in self._columns:
            self._columns[coded] = decoded(self.bytes, coded)
        return self._columns[coded]

    def lives(self, device: PageDevice) -> list[Life]:
        if device.device not in self._lives:
            self._lives[device.device] = self._read_lives(device)
        return self._lives[device.device]

    def _read_lives(self, device: PageDevice) -> list[Life]:
        columns = {
            name: self.column(getattr(device.lives, name))
            for name in device.lives.__struct_fields__
        }
        return [
            Life(
                begin=begin,
                end=begin + life,
                let_go=begin + life - lag,
                requested=requested,
                block=requested + slack,
                stack=stack,
                pool=device.pools[pool],
                stream=device.streams[stream],
                address=address and int(device.address_base) + (address - 1) * device.address_unit,
            )
            for begin, life, lag, requested, slack, stack, pool, stream, address in zip(
                *columns.values(), strict=True
            )
        ]

    def pieces(self, device: PageDevice) -> list[Piece]:
        assert device.segments is not None
        columns = [
            self.column(getattr(device.segments, name))
            for name in device.segments.__struct_fields__
        ]
        return [
            Piece(
                begin=begin,
                end=begin + life,
                address=int(device.address_base) + address * device.address_unit,
                size=size,
                segment=segment,
                pool=device.pools[pool],
                stream=device.streams[stream],
                expandable=kind in (1, 3),
                small=kind in (2, 3),
            )
            for begin, life, address, size, segment, pool, stream, kind in zip(
                *columns, strict=True
            )
        ]

    def lines(self, groups: PageGroups) -> list[tuple[str, ...]]:
        return [tuple(self.data.texts[one] for one in lines) for lines in groups.lines]

    def groups(
        self, device: PageDevice, groups: PageGroups, measure: MeasureName = "requested"
    ) -> list[int]:
        """Return each allocation's group."""
        those = self.lives(device)
        if groups.of_stacks is not None:
            assert groups.of_lives is None
            of = self.column(groups.of_stacks)
            return [of[one.stack] for one in those]
        if groups.of_lives is not None:
            return self.column(groups.of_lives)
        assert groups.way == "size"
        return [one.bytes(measure).bit_length() for one in those]


def check_numbers(value: Any) -> None:
    """Fail if a script would read a number as a different one."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            check_numbers(one)
    elif isinstance(value, int):
        assert abs(value) < 2**53
