"""Reads what `memreplay export` wrote: the tables of a folder, back into those of a snapshot."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from memreplay import _core
from memreplay.container import printable
from memreplay.errors import LimitError, MissingExtraError, SnapshotError, TruncatedError
from memreplay.readahead import several_cpus

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from memreplay._adding import Adding
    from memreplay.model import Limits

FORMATS = ("arrow", "parquet")  # the first that is there is read: it needs no decoding
TABLES = ("frames", "stacks", "segments", "blocks", "annotations", "events")
VERSION = b"1"  # of docs/schema.md
BATCH = 1 << 16
# Bytes of memory a row, of any table, and what any dataset may take.
ROW_BYTES, FREE_BYTES = 64, 64 << 20
MOST_WORDS = 1_000  # characters of an error that a dataset's snapshot was read with
# What pyarrow raises besides its own for a file that is damaged.
_DAMAGE = (ValueError, LookupError, TypeError)
RESTORE = "export the snapshot again"


def dataset_format(path: object) -> str | None:
    """The format of the dataset in a folder; None where `path` is none."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isdir(path):
        return None
    for fmt in FORMATS:
        if os.path.isfile(os.path.join(path, f"events.{fmt}")):
            return fmt
    return None


def rank_folder(path: str, names: Iterable[str] = TABLES) -> str | None:
    """The first folder of a rank (`events/rank=0`) in the folder of a dataset; None without one."""
    for name in names:
        inner = os.path.join(path, name)
        found = [one for one in os.listdir(inner) if one[:5] == "rank="] if _holds(inner) else []
        if found:
            return f"{name}/{min(found)}"
    return None


def _holds(path: str) -> bool:
    return os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK)


def read_dataset(
    path: str, fmt: str, limits: Limits, bounds: tuple[int, int, int, int, int] | None
) -> tuple[_core.Tables, int]:
    """The tables of a dataset, and its bytes.

    Raises SnapshotError where it is no whole dataset of one snapshot, LimitError, OSError and
    MissingExtraError.
    """
    ranks = rank_folder(path)
    if ranks is not None:
        raise SnapshotError(
            f"the folder holds tables of one snapshot and, in {ranks}, of several ranks",
            hint="give each a folder of its own",
        )
    files = {name: _opened(os.path.join(path, f"{name}.{fmt}"), fmt) for name in TABLES}
    said = _said(files)
    total = sum(file.size for file in files.values())
    _check_size(files, total, limits)

    def then(tables: _core.Tables) -> tuple[int, int]:
        from memreplay._adding import Adding

        adding = Adding(tables)
        for name in TABLES:
            _add(adding, name, files[name], said)
        return said["protocol"], said["stream_bytes"]

    prelude = io.BytesIO(json.dumps(said["prelude"]).encode())
    native = _core.read(
        prelude.readinto,
        (
            limits.nesting_depth,
            limits.string_bytes,
            limits.stack_values,
            limits.memo_entries,
            limits.kept_values,
            limits.rows,
            limits.devices,
        ),
        None,
        False,
        bounds,
        None,
        then,
    )
    if said["truncated"] is not None:
        native.truncation = TruncatedError(said["truncated"])
    return native, total


class _File:
    """One table's file: its schema, its length, and its batches."""

    def __init__(self, path: str, size: int, reader: Any, schema: pa.Schema, rows: int) -> None:
        self.name = os.path.basename(path)
        self.size = size
        self.reader = reader
        self.schema = schema
        self.rows = rows

    def batches(self, columns: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The columns that are asked for, each of the type that docs/schema.md says."""
        for name, kind in columns.items():
            at = self.schema.get_field_index(name)
            if at < 0 or str(self.schema.field(at).type) != kind:
                there = "missing" if at < 0 else str(self.schema.field(at).type)
                raise ValueError(f"the column {name} is {there}, not {kind}")
        names = list(columns)
        if hasattr(self.reader, "iter_batches"):
            made = self.reader.iter_batches(BATCH, columns=names, use_threads=False)
            for batch in _ahead(made) if self.rows > BATCH and several_cpus() else made:
                yield _sound(batch, columns)
        else:
            for i in range(self.reader.num_record_batches):
                yield _sound(self.reader.get_batch(i), columns)


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches: the next one is decoded, on a thread, while one is used."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _sound(batch: pa.RecordBatch, columns: Mapping[str, str]) -> dict[str, Any]:
    """The columns of a batch, whose buffers are as long as they have to be, and whose offsets and
    indices lie in them."""
    found = {name: batch.column(name) for name in columns}
    for name, kind in columns.items():
        found[name].validate(full=kind in (_TEXT, _IDS))
    return found


def _opened(path: str, fmt: str) -> _File:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError(
            "a dataset is read with pyarrow: pip install 'memreplay[parquet]'"
        ) from None
    try:
        if fmt == "parquet":
            import pyarrow.parquet as pq

            whole = pq.ParquetFile(path, memory_map=True)
            rows, schema, reader = whole.metadata.num_rows, whole.schema_arrow, whole
        else:
            reader = pa.ipc.open_file(pa.memory_map(path))
            schema = reader.schema
            rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
        return _File(path, os.path.getsize(path), reader, schema, rows)
    except FileNotFoundError:
        raise SnapshotError(
            f"there is no {os.path.basename(path)} in the folder",
            hint=f"a dataset has {', '.join(TABLES)}; {RESTORE}",
        ) from None
    except (pa.ArrowException, OSError, *_DAMAGE) as error:
        name = os.path.basename(path)
        raise SnapshotError(
            f"{name}: not a whole {fmt} file: {_words(error)}", hint=RESTORE
        ) from None


def _words(error: Exception) -> str:
    """The first line of what pyarrow says. What the system says goes on as it is."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return printable((str(error).splitlines() or [type(error).__name__])[0])


def _said(files: Mapping[str, _File]) -> dict[str, Any]:
    """What the tables say of their snapshot, all the same."""
    found: dict[str, Any] | None = None
    for name, file in files.items():
        metadata = file.schema.metadata or {}
        if metadata.get(b"memreplay.table") != name.encode():
            raise SnapshotError(f"{file.name}: not written by memreplay export", hint=RESTORE)
        if metadata.get(b"memreplay.schema") != VERSION:
            raise SnapshotError(
                f"{file.name}: of another version of memreplay's tables", hint=RESTORE
            )
        said = _parsed(metadata.get(b"memreplay.snapshot", b""), file.name)
        if found is not None and said != found:
            raise SnapshotError(
                f"{file.name}: not of the same snapshot as the other tables", hint=RESTORE
            )
        if said["rows"].get(name) != file.rows:
            raise SnapshotError(
                f"{file.name}: {file.rows} rows where there were {said['rows'].get(name)}",
                hint=RESTORE,
            )
        found = said
    assert found is not None
    if found["range"]:
        raise SnapshotError(
            "the dataset holds a range of a snapshot's events, and not what was live before it",
            hint="export the whole snapshot, and read a range of that",
        )
    return found


def _parsed(text: bytes, path: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
        whole = (
            isinstance(said["prelude"], dict)
            and isinstance(said["rows"], dict)
            and all(type(rows) is int for rows in said["rows"].values())
            and isinstance(said["range"], bool)
            and all(type(said[key]) is int for key in ("traces", "protocol", "stream_bytes"))
            and -1 <= said["protocol"] <= 5
            and 0 <= said["stream_bytes"] < 2**62
            and isinstance(said["truncated"], (str, type(None)))
            and (said["truncated"] or "").isprintable()
            and len(said["truncated"] or "") < MOST_WORDS
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise SnapshotError(f"{path}: does not say of which snapshot it is", hint=RESTORE)
    found: dict[str, Any] = said
    return found


def _check_size(files: Mapping[str, _File], total: int, limits: Limits) -> None:
    """A small file may say that it has very many rows."""
    rows = sum(file.rows for file in files.values())
    for name, file in files.items():
        if file.rows > limits.rows:
            raise LimitError(f"{file.rows} rows of {name}, over the limit of {limits.rows}")
    if rows * ROW_BYTES > FREE_BYTES + limits.decompression_ratio * total:
        raise LimitError(
            f"{rows} rows in {total} bytes: more than {limits.decompression_ratio} bytes out of"
            " one (decompression_ratio)"
        )


# --- columns --------------------------------------------------------------------------------------

_TEXT = "dictionary<values=string, indices=int32, ordered=0>"
_POOL = re.compile(r"(-?[0-9]{1,19}):(-?[0-9]{1,19})")
_IDS = "list<element: uint32 not null>"


def _plain(column: pa.Array, missing: int = 0) -> NDArray[Any]:
    """A column of numbers, `missing` for null."""
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
    """Whether each row has a value."""
    import numpy as np

    bitmap = column.buffers()[0]
    if bitmap is None or not column.null_count:
        return np.ones(len(column), dtype=bool)
    bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
    found: NDArray[np.bool_] = bits[column.offset :][: len(column)].astype(bool)
    return found


def _coded(
    column: pa.Array, code: Callable[[list[str]], list[int]], missing: int, dtype: str
) -> NDArray[Any]:
    """A column of text as codes: what `code` makes of its dictionary."""
    import numpy as np

    from memreplay._adding import decoded

    words = column.dictionary.to_pylist()
    if None in words:
        raise ValueError("a null in a dictionary")
    codes = np.array(code(words), dtype="u4")
    indices = column.indices
    valid, data = indices.buffers()
    at = np.frombuffer(data if data is not None else b"", dtype="i4")[indices.offset :]
    bits = np.frombuffer(valid, dtype="u1") if valid is not None and indices.null_count else None
    found = decoded(at[: len(indices)], codes, missing, bits, indices.offset)
    return np.asarray(found).astype(dtype, copy=False)


def _strings(adding: Adding, column: pa.Array, missing: int, as_data: bool = False) -> Any:
    def code(words: list[str]) -> list[int]:
        import numpy as np

        raw = [_metadata(word) if as_data else word.encode("utf-8") for word in words]
        offsets = np.zeros(len(raw) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in raw], out=offsets[1:])
        return memoryview(adding.intern(b"".join(raw), offsets.astype(np.int32))).tolist()

    return _coded(column, code, missing, "u4")


def _metadata(word: str) -> bytes:
    """Metadata as the engine keeps it: behind a NUL data as JSON, and texts that begin with one."""
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


def _pools(adding: Adding, column: pa.Array) -> Any:
    def code(words: list[str]) -> list[int]:
        found = []
        for word in words:
            if not word:  # what an empty dictionary has
                found.append(_core.ABSENT_ID)
                continue
            pair = _POOL.fullmatch(word)
            numbers = [int(one) for one in pair.groups()] if pair else []
            if not pair or not all(-(2**63) <= one < 2**63 for one in numbers):
                raise ValueError(f"{word[:40]!r} is no pool")
            found.append(adding.pool(*numbers))
        return found

    return _coded(column, code, _core.ABSENT_ID, "u4")


# --- tables ---------------------------------------------------------------------------------------


def _add(adding: Adding, name: str, file: _File, said: dict[str, Any]) -> None:
    """The rows of one table. Raises SnapshotError where they are not those of a snapshot."""
    import pyarrow as pa

    from memreplay._adding import WrongRowError

    try:
        _ADD[name](adding, file, said)
    except WrongRowError:
        raise SnapshotError(
            f"{file.name}: a row refers to what is not there, or has a size that no memory has",
            hint=RESTORE,
        ) from None
    except (pa.ArrowException, OSError, *_DAMAGE) as error:
        raise SnapshotError(f"{file.name}: {_words(error)}", hint=RESTORE) from None


def _add_frames(adding: Adding, file: _File, _: dict[str, Any]) -> None:
    fx = ("fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace")
    texts = ("function", "file", *fx)
    for batch in file.batches({"line": "int64", **dict.fromkeys(texts, _TEXT)}):
        ids = {name: _strings(adding, batch[name], 0) for name in texts}
        function, path, *others = ids.values()
        adding.frames(function, path, _plain(batch["line"]), *others)


def _add_stacks(adding: Adding, file: _File, _: dict[str, Any]) -> None:
    import numpy as np

    for batch in file.batches({"frame_ids": _IDS}):
        lists = batch["frame_ids"]
        if lists.null_count:
            raise ValueError("a stack that is null")
        offsets = np.frombuffer(lists.buffers()[1] or b"", dtype=np.int32)
        offsets = offsets[lists.offset : lists.offset + len(lists) + 1]
        adding.stacks(np.ascontiguousarray(offsets), _plain(lists.values))


def _add_segments(adding: Adding, file: _File, _: dict[str, Any]) -> None:
    numbers = {"address": "uint64", "stream": "uint64", "stack_id": "uint32", "device": "int32"}
    sizes = ("bytes", "allocated_bytes", "active_bytes", "requested_bytes")
    columns = {**numbers, **dict.fromkeys(sizes, "int64"), "is_expandable": "bool"}
    for batch in file.batches({**columns, "type": _TEXT, "pool": _TEXT}):
        adding.segments(
            _plain(batch["device"]),
            _plain(batch["address"]),
            _plain(batch["bytes"]),
            _plain(batch["allocated_bytes"]),
            _plain(batch["active_bytes"]),
            _plain(batch["requested_bytes"]),
            _valid(batch["requested_bytes"]).view("u1"),
            _plain(batch["stream"]),
            _strings(adding, batch["type"], 0),
            _pools(adding, batch["pool"]),
            _plain(batch["stack_id"]),
            _plain(batch["is_expandable"]),
        )


def _add_blocks(adding: Adding, file: _File, _: dict[str, Any]) -> None:
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

    for batch in file.batches(columns):
        asked = batch["requested_bytes"]
        adding.blocks(
            _plain(batch["segment_id"]),
            _plain(batch["address"]),
            _plain(batch["bytes"]),
            _plain(asked),
            _valid(asked).view("u1"),
            _coded(batch["state"], code, 0, "u1"),
            _plain(batch["stack_id"]),
        )


def _add_annotations(adding: Adding, file: _File, _: dict[str, Any]) -> None:
    columns = {"device": "int32", "time_us": "int64", "stage": _TEXT, "name": _TEXT}
    for batch in file.batches(columns):
        adding.annotations(
            _plain(batch["device"]),
            _plain(batch["time_us"], _core.ABSENT_TIME),
            _strings(adding, batch["stage"], 0),
            _strings(adding, batch["name"], 0),
        )


def _add_events(adding: Adding, file: _File, said: dict[str, Any]) -> None:
    import numpy as np

    columns = {
        "device": "int32",
        "index": "int64",
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
    for batch in file.batches(columns):
        devices = _plain(batch["device"])
        free = batch["device_free_bytes"]
        made = (
            _coded(batch["action"], code, _NO_ACTION, "u1"),
            _plain(batch["address"]),
            _plain(batch["bytes"]),
            _plain(batch["time_us"], _core.ABSENT_TIME),
            _plain(batch["stream"]),
            _plain(batch["stack_id"]),
            _pools(adding, batch["pool"]),
            _strings(adding, batch["compile_context"], _core.ABSENT_ID, as_data=True),
            _strings(adding, batch["user_metadata"], _core.ABSENT_ID, as_data=True),
            _plain(free),
            _valid(free).view("u1"),
        )
        places = _plain(batch["index"])
        bounds = [0, *(np.flatnonzero(devices[1:] != devices[:-1]) + 1).tolist(), len(devices)]
        for first, last in pairwise(bounds):
            if first == last:
                continue
            device = int(devices[first])
            if device >= said["traces"] or device < at - opened:
                raise ValueError(f"events of device {device} in the wrong place")
            while at <= device:
                adding.trace(at)
                at, index, opened = at + 1, 0, True
            if (places[first:last] != np.arange(index, index + last - first)).any():
                raise ValueError(f"the events of device {device} are not in their order")
            index += last - first
            adding.events(*(np.ascontiguousarray(column[first:last]) for column in made))
    while at < said["traces"]:
        adding.trace(at)
        at += 1


_NO_ACTION = 31  # the code of an event that has no action

_ADD: dict[str, Callable[[Adding, _File, dict[str, Any]], None]] = {
    "frames": _add_frames,
    "stacks": _add_stacks,
    "segments": _add_segments,
    "blocks": _add_blocks,
    "annotations": _add_annotations,
    "events": _add_events,
}
