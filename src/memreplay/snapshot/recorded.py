"""What memreplay's recorder noted of each allocation (docs/format.md)."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memreplay.io.packing import as_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot.trace import Trace

UNKNOWN = 0xFFFFFFFF  # a kind that is none: nothing was noted
SPARE = 1 << 12  # rows that a column may have more than there are events: of memory of others


class FlawError(ValueError):
    """What was noted does not fit the events, or is damaged; its text says which."""


class Recorded:
    """The category, phase and module of allocations.

    What is one in all three has one number, its kind.

    Parameters
    ----------
    recorder : dict
        What lies in the file under memreplay's key.
    events : dict
        How many events each device's trace has.
    blocks : int
        How many blocks the segments have.

    Raises
    ------
    FlawError
        For a form that is not the recorder's, and for columns that do not fit the events.
    """

    def __init__(
        self, recorder: Mapping[str, object], events: Mapping[int, int], blocks: int
    ) -> None:
        noted = _dict(recorder.get("allocations"))
        self.categories = _texts(noted.get("categories"))
        self.phases = _texts(noted.get("phases"))
        self.modules = _texts(noted.get("modules"))
        # No file has many more kinds than allocations, and those that were there before.
        most = sum(events.values()) + blocks + SPARE
        before = _dict(noted.get("before"))
        addresses = _unpacked(before.get("addresses"), most, "<u8")
        of_addresses = _unpacked(before.get("kinds"), most, "<u4")
        kinds = _unpacked(noted.get("kinds"), most * 3, "<u4")
        if len(kinds) % 3 or len(of_addresses) != len(addresses):
            raise FlawError("its columns are of different lengths")
        self.kinds: NDArray[np.uint32] = kinds.reshape(-1, 3)
        """u32, (n, 3): category, phase and module of each kind."""
        lengths = len(self.categories), len(self.phases), len(self.modules)
        if len(self.kinds) and (self.kinds.max(axis=0) >= np.array(lengths)).any():
            raise FlawError("it names a category, phase or module that it does not have")
        columns = noted.get("events")
        if not isinstance(columns, list):
            raise FlawError("it has no columns of events")
        self._columns: dict[int, NDArray[np.uint32]] = {}
        for device, count in events.items():
            if not 0 <= device < len(columns):
                if count:
                    raise FlawError(f"it knows nothing of device {device}")
                continue
            column = _unpacked(columns[device], count, "<u4")
            if len(column) != count:
                raise FlawError(
                    f"it knows {len(column):,} events of device {device}, and there are {count:,}"
                )
            self._columns[device] = self._checked(column)
        order = np.argsort(addresses, kind="stable")
        self._addresses = addresses[order]
        self._of_addresses = self._checked(of_addresses)[order]

    def _checked(self, column: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Kinds from 0 on, UNKNOWN for none: in the file they are from 1 on, and 0 for none."""
        if len(column) and column.max() > len(self.kinds):
            raise FlawError("it names a kind that it does not have")
        found: NDArray[np.uint32] = column - np.uint32(1)
        return found

    def of_events(self, trace: Trace) -> NDArray[np.uint32]:
        """u32 an event that was read: the kind of what it allocates; UNKNOWN where it allocates
        nothing, and where nothing was noted."""
        column = self._columns.get(trace.device)
        if column is None:
            return np.full(trace.events, UNKNOWN, "u4")
        return column[trace.first_event : trace.first_event + trace.events]

    def of_carried(self, trace: Trace) -> NDArray[np.uint32]:
        """u32 a carried block: its kind; UNKNOWN where nothing was noted."""
        addresses = np.asarray(trace.carried("address"))
        made = np.asarray(trace.carried("made")).astype(np.int64)
        found = np.full(len(addresses), UNKNOWN, "u4")
        if len(self._addresses):
            at = np.searchsorted(self._addresses, addresses).clip(max=len(self._addresses) - 1)
            known = self._addresses[at] == addresses
            found[known] = self._of_addresses[at[known]]
        column = self._columns.get(trace.device)
        if column is not None and made.any():
            found[made > 0] = column[made[made > 0] - 1]
        return found

    def renoted(
        self,
        events: Sequence[NDArray[np.uint32]],
        addresses: NDArray[np.uint64],
        of_addresses: NDArray[np.uint32],
    ) -> dict[str, object]:
        """The same notes of other events: a column of kinds a device, and the kinds of what was
        there before, by address. Kinds and modules that are not among them are left out."""
        there = np.unique(np.concatenate([*events, of_addresses]))
        there = there[there != UNKNOWN]
        kinds = self.kinds[there]
        modules, kinds[:, 2] = np.unique(kinds[:, 2], return_inverse=True)

        def column(of: NDArray[np.uint32]) -> str:
            """From 1 on; 0 for nothing."""
            return packed(np.where(of == UNKNOWN, 0, np.searchsorted(there, of) + 1).astype("<u4"))

        return {
            "categories": self.categories,
            "phases": self.phases,
            "modules": [self.modules[module] for module in modules.tolist()],
            "kinds": packed(kinds.astype("<u4")),
            "events": [column(of) for of in events],
            "before": {
                "addresses": packed(addresses.astype("<u8")),
                "kinds": column(of_addresses),
            },
        }


def packed(data: NDArray[Any]) -> str:
    """A column of little-endian numbers as text that JSON can hold, as the recorder packs it."""
    return as_text(data.tobytes())


def _dict(found: object) -> Mapping[str, object]:
    if not isinstance(found, dict):
        raise FlawError("it is not in the recorder's form")
    return found


def _texts(found: object) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise FlawError("it is not in the recorder's form")
    return found


def _unpacked(found: object, most: int, dtype: str) -> NDArray[Any]:
    """A column of at most so many numbers: what is packed may be far larger than its text."""
    if not isinstance(found, str):
        raise FlawError("it is not in the recorder's form")
    item = np.dtype(dtype).itemsize
    try:
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(base64.b64decode(found, validate=True), most * item + 1)
    except (binascii.Error, zlib.error, ValueError):
        raise FlawError("a column of it is damaged") from None
    if len(plain) > most * item:
        raise FlawError("a column of it is longer than there are events")
    if not unpacking.eof or len(plain) % item:
        raise FlawError("a column of it is damaged")
    return np.frombuffer(plain, dtype)
