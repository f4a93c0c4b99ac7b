"""The notes on each allocation that memreplay's recorder made (docs/format.md)."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from struct import calcsize
from typing import TYPE_CHECKING, Literal

from memreplay.engine.query._vectors import chosen, constant, counting, joined, vector, zeros
from memreplay.io.packing import as_text

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.trace import Trace

UNKNOWN = 0xFFFFFFFF  # the kind of an allocation without a note
SPARE = 1 << 12  # maximum number of extra rows in a column, for memory that other code allocated


class FlawError(ValueError):
    """The notes are damaged or don't match the events. The message says which."""


class Recorded:
    """Allocations' categories, phases and modules.

    Each combination of the three is identified by a number, called its kind.

    Parameters
    ----------
    recorder : dict
        The value under memreplay's key in the file.
    events : dict
        Number of events in each device's trace.
    blocks : int
        Total number of blocks in the segments.

    Raises
    ------
    FlawError
        The notes aren't in the recorder's format, or columns don't match the events.
    """

    def __init__(
        self, recorder: Mapping[str, object], events: Mapping[int, int], blocks: int
    ) -> None:
        noted = _dict(recorder.get("allocations"))
        self.categories = _texts(noted.get("categories"))
        self.phases = _texts(noted.get("phases"))
        self.modules = _texts(noted.get("modules"))
        # There can't be many more kinds than there are allocations and carried-over blocks.
        most = sum(events.values()) + blocks + SPARE
        before = _dict(noted.get("before"))
        addresses = unpacked(before.get("addresses"), most, "Q")
        of_addresses = unpacked(before.get("kinds"), most, "I")
        kinds = unpacked(noted.get("kinds"), most * 3, "I")
        if len(kinds) % 3 or len(of_addresses) != len(addresses):
            raise FlawError("its columns have different lengths")
        self.kinds = kinds[::3], kinds[1::3], kinds[2::3]
        """Category, phase and module of each kind (u32)."""
        names = self.categories, self.phases, self.modules
        if any(one.max(initial=-1) >= len(of) for one, of in zip(self.kinds, names, strict=True)):
            raise FlawError("it refers to an unknown category, phase or module")
        columns = noted.get("events")
        if not isinstance(columns, list):
            raise FlawError("it has no event columns")
        self._columns: dict[int, Vector] = {}
        for device, count in events.items():
            if not 0 <= device < len(columns):
                if count:
                    raise FlawError(f"it has no notes on device {device}")
                continue
            column = unpacked(columns[device], count, "I")
            if len(column) != count:
                raise FlawError(
                    f"it has notes on {len(column):,} events of device {device}, which has"
                    f" {count:,}"
                )
            self._columns[device] = self._checked(column)
        order = addresses.order()
        self._addresses = addresses[order]
        self._of_addresses = self._checked(of_addresses)[order]

    def _checked(self, column: Vector) -> Vector:
        """Convert kinds from the file's numbers (from 1; 0 means none) to ours (from 0; UNKNOWN
        means none).
        """
        if column.max(initial=0) > len(self.kinds[0]):
            raise FlawError("it refers to an unknown kind")
        return (column - 1).as_format("I")

    def of_events(self, trace: Trace) -> Vector:
        """Return the kind for each event read (u32); UNKNOWN for events without notes."""
        column = self._columns.get(trace.device)
        if column is None:
            return constant(UNKNOWN, trace.events, "I")
        return column[trace.first_event : trace.first_event + trace.events]

    def of_carried(self, trace: Trace) -> Vector:
        """Return the kind for each carried-over block (u32); UNKNOWN for blocks without notes."""
        addresses = vector(trace.carried("address"))
        made = vector(trace.carried("alloc_index"))
        found = constant(UNKNOWN, len(addresses), "I").copy()
        if len(self._addresses):
            at = self._addresses.places(addresses).lower(len(self._addresses) - 1)
            known = self._addresses[at] == addresses
            found[known] = self._of_addresses[at[known]]
        column = self._columns.get(trace.device)
        if column is not None and made.any():
            found[made > 0] = column[made[made > 0] - 1]
        return found

    def renoted(
        self,
        events: Sequence[Vector],
        addresses: Vector,
        of_addresses: Vector,
    ) -> dict[str, object]:
        """Return these notes for other events, given the kinds of each device's events and, by
        address, of carried-over blocks.

        Unused kinds and modules are dropped.
        """
        there = joined([*events, of_addresses], "I").distinct()
        there = there[there != UNKNOWN]
        category, phase, module = (one[there] for one in self.kinds)
        modules, module = module.numbered()
        kinds, rows = zeros(3 * len(there), "I"), 3 * counting(len(there))
        for at, part in enumerate((category, phase, module)):
            kinds[rows + at] = part

        def column(of: Vector) -> str:
            """Return the kinds, renumbered from 1, with 0 for none."""
            return packed(chosen(of == UNKNOWN, 0, there.places(of) + 1).as_format("I"))

        return {
            "categories": self.categories,
            "phases": self.phases,
            "modules": [self.modules[module] for module in modules],
            "kinds": packed(kinds),
            "events": [column(of) for of in events],
            "before": {
                "addresses": packed(addresses),
                "kinds": column(of_addresses),
            },
        }


def packed(data: Buffer) -> str:
    """Pack a column of little-endian numbers as text for JSON, as the recorder does."""
    return as_text(bytes(data))


def _dict(found: object) -> Mapping[str, object]:
    if not isinstance(found, dict):
        raise FlawError("it isn't in the recorder's format")
    return found


def _texts(found: object) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise FlawError("it isn't in the recorder's format")
    return found


def unpacked(found: object, most: int, fmt: Literal["I", "Q"]) -> Vector:
    """Unpack a column of at most `most` numbers. The limit is needed because unpacked data may be
    far larger than its text.
    """
    if not isinstance(found, str):
        raise FlawError("it isn't in the recorder's format")
    item = calcsize(fmt)
    try:
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(base64.b64decode(found, validate=True), most * item + 1)
    except (binascii.Error, zlib.error, ValueError):
        raise FlawError("one of its columns is damaged") from None
    if len(plain) > most * item:
        raise FlawError("one of its columns has more rows than events")
    if not unpacking.eof or len(plain) % item:
        raise FlawError("one of its columns is damaged")
    return vector(memoryview(plain).cast(fmt))
