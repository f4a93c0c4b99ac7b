"""Check the rows of a dataset's tables and add them to a snapshot."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import memreplay._core as _core

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from memreplay.engine.read._adding import Adding

# A function that takes a mapping from column names to types, and yields batches with these columns.
Batches: TypeAlias = "Callable[[Mapping[str, str]], Iterator[pa.RecordBatch]]"

_TEXT = "dictionary<values=string, indices=int32, ordered=0>"
_NO_ACTION = 31  # stands for a null action
_POOL = re.compile(r"(-?[0-9]{1,19}):(-?[0-9]{1,19})")
_IDS = "list<element: uint32 not null>"


def _plain(column: pa.Array, missing: int = 0) -> NDArray[Any]:
    """Return a column as numbers, with `missing` in place of null."""
    import numpy as np

    kind = str(column.type)
    _, data = column.buffers()
    if kind == "bool":
        bits = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, np.uint8)
        flat = np.unpackbits(bits, bitorder="little")[column.offset :][: len(column)]
    else:
        kind_of = np.dtype(kind)
        flat = np.frombuffer(data if data is not None else b"", dtype=kind_of)
        flat = flat[column.offset : column.offset + len(column)]
    if column.null_count == len(column):
        return np.full(len(column), missing, dtype=flat.dtype)
    if column.null_count:
        return np.where(_valid(column), flat, flat.dtype.type(missing))
    return np.ascontiguousarray(flat)


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    """Return for each row whether it has a value (bool array)."""
    import numpy as np

    bitmap = column.buffers()[0]
    if bitmap is None or not column.null_count:
        return np.ones(len(column), dtype=bool)
    bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
    found: NDArray[np.bool_] = bits[column.offset :][: len(column)].astype(bool)
    return found


def _checked_column(batch: pa.RecordBatch, name: str, *, full: bool = False) -> pa.Array:
    """Return a column after checking its buffers' lengths and, if `full`, its offsets."""
    column = batch.column(name)
    column.validate(full=full)
    return column


class _Words:
    """Converts a table's text columns to codes.

    A dictionary that several batches share is converted only once, because it may have far more
    words than a batch has rows.
    """

    def __init__(self, adding: Adding) -> None:
        self.adding = adding
        self._known: dict[str, tuple[pa.Array, NDArray[np.uint32]]] = {}

    def codes(
        self,
        batch: pa.RecordBatch,
        name: str,
        code: Callable[[list[str]], list[int]],
        missing: int,
    ) -> NDArray[np.uint32]:
        """Return the code for each row's word, as returned by `code`; `missing` for null."""
        import numpy as np

        from memreplay.engine.read._adding import decoded

        column = _checked_column(batch, name)
        words = column.dictionary
        if name not in self._known or not _same(self._known[name][0], words):
            words.validate(full=True)
            if words.null_count:
                raise ValueError("a null in a dictionary")
            self._known[name] = words, np.array(code(words.to_pylist()), dtype="u4")
        indices = column.indices
        valid, data = indices.buffers()
        at = np.frombuffer(data if data is not None else b"", dtype="i4")[indices.offset :]
        bits = np.frombuffer(valid, dtype="u1") if valid is not None else None
        codes = self._known[name][1]
        return np.asarray(decoded(at[: len(indices)], codes, missing, bits, indices.offset))

    def strings(
        self, batch: pa.RecordBatch, name: str, missing: int, as_data: bool = False
    ) -> NDArray[np.uint32]:
        """Return a text column's string ids."""

        def code(words: list[str]) -> list[int]:
            import numpy as np

            raw = [_metadata(word) if as_data else word.encode("utf-8") for word in words]
            offsets = np.zeros(len(raw) + 1, dtype=np.int64)
            np.cumsum([len(one) for one in raw], out=offsets[1:])
            ids = self.adding.intern(b"".join(raw), offsets.astype(np.int32))
            return memoryview(ids).tolist()

        return self.codes(batch, name, code, missing)

    def pools(self, batch: pa.RecordBatch, name: str) -> NDArray[np.uint32]:
        """Return a column's pool ids."""

        def code(words: list[str]) -> list[int]:
            # Even an empty dictionary contains one empty word.
            return [_core.ABSENT_ID if not word else self._pool(word) for word in words]

        return self.codes(batch, name, code, _core.ABSENT_ID)

    def _pool(self, word: str) -> int:
        pair = _POOL.fullmatch(word)
        numbers = [int(one) for one in pair.groups()] if pair else []
        if not pair or not all(-(2**63) <= one < 2**63 for one in numbers):
            raise ValueError(f"{word[:40]!r} is not a pool")
        return self.adding.pool(*numbers)


def _same(one: pa.Array, other: pa.Array) -> bool:
    """Return whether two columns share their memory and therefore are equal. `one` must still be
    alive.
    """

    def places(column: pa.Array) -> list[tuple[int, int] | None]:
        return [buffer and (buffer.address, buffer.size) for buffer in column.buffers()]

    return (one.offset, len(one)) == (other.offset, len(other)) and places(one) == places(other)


def _metadata(word: str) -> bytes:
    """Encode metadata the way the engine stores it:

    NUL and JSON for structured data and for strings that start with NUL; other strings as they are.
    """
    raw = word.encode("utf-8")
    if raw[:1] == b"\0":
        return b"\0" + json.dumps(word).encode()
    if raw[:1] in (b"{", b"["):
        try:
            json.loads(raw)
        except (ValueError, RecursionError):
            return raw
        return b"\0" + raw
    return raw


# --- tables ---------------------------------------------------------------------------------------


def _add_frames(adding: Adding, batches: Batches, _: int) -> None:
    fx = ("fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace")
    texts = ("function", "file", *fx)
    words = _Words(adding)
    for batch in batches({"line": "int64", **dict.fromkeys(texts, _TEXT)}):
        ids = {name: words.strings(batch, name, 0) for name in texts}
        function, path, *others = ids.values()
        adding.frames(function, path, _plain(_checked_column(batch, "line")), *others)


def _add_stacks(adding: Adding, batches: Batches, _: int) -> None:
    import numpy as np

    for batch in batches({"frame_ids": _IDS}):
        lists = _checked_column(batch, "frame_ids", full=True)
        if lists.null_count:
            raise ValueError("a stack that is null")
        offsets = np.frombuffer(lists.buffers()[1] or b"", dtype=np.int32)
        offsets = offsets[lists.offset : lists.offset + len(lists) + 1]
        adding.stacks(np.ascontiguousarray(offsets), _plain(lists.values))


def _add_segments(adding: Adding, batches: Batches, _: int) -> None:
    numbers = {"address": "uint64", "stream": "uint64", "stack_id": "uint32", "device": "int32"}
    sizes = ("bytes", "allocated_bytes", "active_bytes", "requested_bytes")
    columns = {**numbers, **dict.fromkeys(sizes, "int64"), "is_expandable": "bool"}
    words = _Words(adding)
    for batch in batches({**columns, "type": _TEXT, "pool": _TEXT}):
        adding.segments(
            _plain(_checked_column(batch, "device")),
            _plain(_checked_column(batch, "address")),
            _plain(_checked_column(batch, "bytes")),
            _plain(_checked_column(batch, "allocated_bytes")),
            _plain(_checked_column(batch, "active_bytes")),
            _plain(_checked_column(batch, "requested_bytes")),
            _valid(batch.column("requested_bytes")).view("u1"),
            _plain(_checked_column(batch, "stream")),
            words.strings(batch, "type", 0),
            words.pools(batch, "pool"),
            _plain(_checked_column(batch, "stack_id")),
            _plain(_checked_column(batch, "is_expandable")),
        )


def _add_blocks(adding: Adding, batches: Batches, _: int) -> None:
    columns = {
        "segment_id": "uint32",
        "address": "uint64",
        "bytes": "int64",
        "requested_bytes": "int64",
        "stack_id": "uint32",
        "state": _TEXT,
    }

    def code(words: list[str]) -> list[int]:
        return [_core.STATES.index(word) if word in _core.STATES else 0 for word in words]

    words = _Words(adding)
    for batch in batches(columns):
        asked = _checked_column(batch, "requested_bytes")
        adding.blocks(
            _plain(_checked_column(batch, "segment_id")),
            _plain(_checked_column(batch, "address")),
            _plain(_checked_column(batch, "bytes")),
            _plain(asked),
            _valid(asked).view("u1"),
            words.codes(batch, "state", code, 0).astype("u1"),
            _plain(_checked_column(batch, "stack_id")),
        )


def _add_annotations(adding: Adding, batches: Batches, _: int) -> None:
    columns = {"device": "int32", "time_us": "int64", "stage": _TEXT, "name": _TEXT}
    words = _Words(adding)
    for batch in batches(columns):
        adding.annotations(
            _plain(_checked_column(batch, "device")),
            _plain(_checked_column(batch, "time_us"), _core.ABSENT_TIME),
            words.strings(batch, "stage", 0),
            words.strings(batch, "name", 0),
        )


def _add_events(adding: Adding, batches: Batches, traces: int) -> None:
    import numpy as np

    columns = {
        "device": "int32",
        "event_index": "int64",
        "address": "uint64",
        "bytes": "int64",
        "time_us": "int64",
        "stream": "uint64",
        "stack_id": "uint32",
        "device_free_bytes": "int64",
        **dict.fromkeys(("action", "pool", "compile_context", "user_metadata"), _TEXT),
    }

    def code(words: list[str]) -> list[int]:
        return [adding.action(word.encode("utf-8")) for word in words]

    at = index = 0
    opened = False
    words = _Words(adding)
    for batch in batches(columns):
        devices = _plain(_checked_column(batch, "device"))
        free = _checked_column(batch, "device_free_bytes")
        made = (
            words.codes(batch, "action", code, _NO_ACTION).astype("u1"),
            _plain(_checked_column(batch, "address")),
            _plain(_checked_column(batch, "bytes")),
            _plain(_checked_column(batch, "time_us"), _core.ABSENT_TIME),
            _plain(_checked_column(batch, "stream")),
            _plain(_checked_column(batch, "stack_id")),
            words.pools(batch, "pool"),
            words.strings(batch, "compile_context", _core.ABSENT_ID, as_data=True),
            words.strings(batch, "user_metadata", _core.ABSENT_ID, as_data=True),
            _plain(free),
            _valid(free).view("u1"),
        )
        places = _plain(_checked_column(batch, "event_index"))
        bounds = [0, *(np.flatnonzero(devices[1:] != devices[:-1]) + 1).tolist(), len(devices)]
        for first, last in pairwise(bounds):
            if first == last:
                continue
            device = int(devices[first])
            if device >= traces or device < at - opened:
                raise ValueError(f"events of device {device} in the wrong place")
            while at <= device:
                adding.trace(at)
                at, index, opened = at + 1, 0, True
            if (places[first:last] != np.arange(index, index + last - first)).any():
                raise ValueError(f"the events of device {device} are not in their order")
            index += last - first
            adding.events(*(np.ascontiguousarray(column[first:last]) for column in made))
    while at < traces:
        adding.trace(at)
        at += 1


ADD: dict[str, Callable[[Adding, Batches, int], None]] = {
    "frames": _add_frames,
    "stacks": _add_stacks,
    "segments": _add_segments,
    "blocks": _add_blocks,
    "annotations": _add_annotations,
    "events": _add_events,
}
