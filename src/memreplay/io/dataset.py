"""Reads what `memreplay export` wrote: the files of a dataset, back into a snapshot's tables."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import memreplay._core as _core
from memreplay.errors import LimitError, MissingExtraError, SnapshotError, TruncatedError
from memreplay.io.container import printable
from memreplay.io.dataset_files import TABLES, WHOLE, Dataset
from memreplay.io.readahead import several_cpus

if TYPE_CHECKING:
    import pyarrow as pa

    from memreplay.engine.read._adding import Adding
    from memreplay.io.limits import Limits

VERSION = b"1"  # of docs/schema.md
BATCH = 1 << 16
# Bytes of memory a row, of any table, and what any dataset may take.
ROW_BYTES, FREE_BYTES = 64, 64 << 20
MOST_WORDS = 1_000  # characters of an error that a dataset's snapshot was read with
# What pyarrow raises besides its own for a file that is damaged.
_DAMAGE = (ValueError, LookupError, TypeError)
RESTORE = "export the snapshot again"


def read_dataset(
    found: Dataset, limits: Limits, bounds: tuple[int, int, int, int, int] | None
) -> tuple[_core.Tables, int, frozenset[str]]:
    """The tables of a dataset, its bytes, and the traits of its snapshot.

    Raises SnapshotError where it is no whole dataset of one snapshot, LimitError, OSError and
    MissingExtraError.
    """
    files = {name: _opened(found.paths[name], found.fmt) for name in TABLES}
    said = _said(files)
    if found.twin is not None:
        _check_twin(found.twin, said)
    total = sum(file.size for file in files.values())
    _check_size(files, total, limits)

    def then(tables: _core.Tables) -> tuple[int, int]:
        from memreplay.engine.read._adding import Adding

        adding = Adding(tables)
        for name in TABLES:
            _add(adding, name, files[name], said)
        return said["protocol"], said["stream_bytes"]

    prelude = io.BytesIO(json.dumps(said["prelude"]).encode())
    native = _core.read(
        prelude.readinto,
        limits.numbers(),
        None,
        False,
        bounds,
        None,
        then,
    )
    if said["truncated"] is not None:
        native.truncation = TruncatedError(said["truncated"])
    return native, total, frozenset(said.get("traits", ()))


class _File:
    """One table's file: its schema, its length, and its batches."""

    def __init__(self, path: str, size: int, reader: Any, schema: pa.Schema, rows: int) -> None:
        self.name = os.path.basename(path)
        self.size = size
        self.reader = reader
        self.schema = schema
        self.rows = rows

    def batches(self, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Batches with the columns that are asked for, each of the type that docs/schema.md says.
        What is in them is not to be trusted."""
        for name, kind in columns.items():
            at = self.schema.get_field_index(name)
            if at < 0 or str(self.schema.field(at).type) != kind:
                there = "missing" if at < 0 else str(self.schema.field(at).type)
                raise ValueError(f"the column {name} is {there}, not {kind}")
        names = list(columns)
        if hasattr(self.reader, "iter_batches"):
            made = self.reader.iter_batches(BATCH, columns=names, use_threads=False)
            yield from _ahead(made) if self.rows > BATCH and several_cpus() else made
        else:
            for i in range(self.reader.num_record_batches):
                yield self.reader.get_batch(i)


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches: the next one is decoded, on a thread, while one is used."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _opened(path: str, fmt: str) -> _File:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("reading a dataset needs pyarrow", "parquet") from None
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
            hint=WHOLE,
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
                f"{file.name}: from another version of memreplay's tables", hint=RESTORE
            )
        said = _parsed(metadata.get(b"memreplay.snapshot", b""), file.name)
        if found is not None and said != found:
            raise SnapshotError(
                f"{file.name}: from another snapshot than the other tables", hint=RESTORE
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


def _check_twin(path: str, said: dict[str, Any]) -> None:
    """Raises SnapshotError where a table beside those that are read is of another snapshot: which
    of them was meant, nobody knows."""
    try:
        other = _opened(path, os.path.splitext(path)[1][1:])
        of = _parsed((other.schema.metadata or {}).get(b"memreplay.snapshot", b""), other.name)
    except SnapshotError:
        return  # it is none that could be read instead
    if of != said:
        raise SnapshotError(
            "the folder holds tables of two snapshots, as arrow and as parquet",
            hint=f"name a file of one, as {path}",
        )


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
            # Not in what earlier versions wrote.
            and isinstance(said.get("traits", []), list)
            and all(isinstance(key, str) for key in said.get("traits", []))
            and isinstance(said["truncated"], (str, type(None)))
            and (said["truncated"] or "").isprintable()
            and len(said["truncated"] or "") < MOST_WORDS
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise SnapshotError(f"{path}: does not say which snapshot it belongs to", hint=RESTORE)
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


def _add(adding: Adding, name: str, file: _File, said: dict[str, Any]) -> None:
    """The rows of one table. Raises SnapshotError where they are not those of a snapshot."""
    import pyarrow as pa

    from memreplay.engine.read._adding import WrongRowError
    from memreplay.io.dataset_rows import ADD

    try:
        ADD[name](adding, file.batches, said["traces"])
    except WrongRowError:
        raise SnapshotError(
            f"{file.name}: a row refers to something that does not exist, or has an impossible"
            " size",
            hint=RESTORE,
        ) from None
    except (pa.ArrowException, OSError, *_DAMAGE) as error:
        raise SnapshotError(f"{file.name}: {_words(error)}", hint=RESTORE) from None
