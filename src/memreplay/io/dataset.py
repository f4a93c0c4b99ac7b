"""Read tables that `memreplay export` wrote, and turn them back into a snapshot."""

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

VERSION = b"1"  # schema version (docs/schema.md)
BATCH = 1 << 16
# Limits on memory: bytes per table row, and bytes that are always allowed.
ROW_BYTES, FREE_BYTES = 64, 64 << 20
MOST_WORDS = 1_000  # maximum length of a stored error message, in characters
# exceptions that pyarrow raises for damaged files, in addition to its own
_DAMAGE = (ValueError, LookupError, TypeError)
RESTORE = "export the snapshot again"


def read_dataset(
    found: Dataset, limits: Limits, bounds: tuple[int, int, int, int, int] | None
) -> tuple[_core.Tables, int, frozenset[str]]:
    """Read a dataset's tables.

    Returns the tables, the files' size in bytes and the snapshot's traits. Raises SnapshotError if
    the files aren't a complete dataset of one snapshot, LimitError, OSError or MissingExtraError.
    """
    files = {name: _opened(found.paths[name], found.fmt) for name in TABLES}
    said = _read_metadata(files)
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
    """One table's file: its schema, number of rows and batches."""

    def __init__(self, path: str, size: int, reader: Any, schema: pa.Schema, rows: int) -> None:
        self.name = os.path.basename(path)
        self.size = size
        self.reader = reader
        self.schema = schema
        self.rows = rows

    def batches(self, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Yield batches with these columns. Their types are checked; their values aren't."""
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
    """Yield the same batches, but decode the next batch on a thread in the meantime."""
    from memreplay.io.parallel import executor

    with executor(1) as pool:
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
            f"{os.path.basename(path)} is missing from the folder",
            hint=WHOLE,
        ) from None
    except (pa.ArrowException, OSError, *_DAMAGE) as error:
        name = os.path.basename(path)
        raise SnapshotError(
            f"{name}: not a whole {fmt} file: {_words(error)}", hint=RESTORE
        ) from None


def _words(error: Exception) -> str:
    """Return the first line of pyarrow's message. Reraises errors from the operating system."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return printable((str(error).splitlines() or [type(error).__name__])[0])


def _read_metadata(files: Mapping[str, _File]) -> dict[str, Any]:
    """Return the metadata about the snapshot, which must be the same in all tables."""
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
                f"{file.name}: not from the same snapshot as the other tables", hint=RESTORE
            )
        if said["rows"].get(name) != file.rows:
            raise SnapshotError(
                f"{file.name}: {file.rows} rows instead of {said['rows'].get(name)}",
                hint=RESTORE,
            )
        found = said
    assert found is not None
    if found["range"]:
        raise SnapshotError(
            "the dataset has a range of a snapshot's events without the blocks live before it",
            hint="export the whole snapshot and read a range of it",
        )
    return found


def _check_twin(path: str, said: dict[str, Any]) -> None:
    """Raise SnapshotError if the same table exists in the other format but belongs to another
    snapshot. Choosing one of them would be a guess.
    """
    try:
        other = _opened(path, os.path.splitext(path)[1][1:])
        of = _parsed((other.schema.metadata or {}).get(b"memreplay.snapshot", b""), other.name)
    except SnapshotError:
        return  # the other table can't be read, so there's no choice
    if of != said:
        raise SnapshotError(
            "the folder holds tables of two snapshots, as arrow and as parquet",
            hint=f"pass a file of one, such as {path}",
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
            # Files from earlier versions don't have this key.
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
    """Raise LimitError for too many rows, because even a small file can claim to have them."""
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
    """Add one table's rows.

    Raises SnapshotError for rows that aren't possible in a snapshot.
    """
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
