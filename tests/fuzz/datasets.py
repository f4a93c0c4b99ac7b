"""Exported datasets packed as single inputs, and mutators for their files, columns and metadata."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memreplay.export.tables import table
from memreplay.export.tables.ipc import write_arrow
from memreplay.export.tables.parquet import write_parquet
from memreplay.io.dataset_files import FORMATS, TABLES
from tests.fuzz import plain, raw

if TYPE_CHECKING:
    import pyarrow as pa

    import memreplay as mr

MAGIC = b"memreplay fuzz dataset\n"
SAID = b"memreplay.snapshot"
WRITERS = {"arrow": write_arrow, "parquet": write_parquet}
TEXTS = ("alloc", "active_allocated", "0:1", "-1:9223372036854775807", ":", '{"a": 1}', '{"a', "")

Files = dict[str, bytes]


# --- one input ------------------------------------------------------------------------------------


def pack(fmt: str, files: Files) -> bytes:
    """Concatenate a dataset's files."""
    parts = [files[name] for name in TABLES]
    lengths = b"".join(len(part).to_bytes(4, "little") for part in parts)
    return MAGIC + bytes([FORMATS.index(fmt)]) + lengths + b"".join(parts)


def unpack(data: bytes) -> tuple[str, Files] | None:
    """Return the format and files that `pack` packed, or None if the input is cut off before
    them.
    """
    at = len(MAGIC) + 1 + 4 * len(TABLES)
    if len(data) < at:
        return None
    fmt = FORMATS[data[len(MAGIC)] % len(FORMATS)]
    files = {}
    for i, name in enumerate(TABLES):
        place = len(MAGIC) + 1 + 4 * i
        length = int.from_bytes(data[place : place + 4], "little")
        files[name] = data[at : at + length]
        at += length
    return fmt, files


def unpacked(data: bytes, folder: str) -> bool:
    """Write the files that `pack` packed into a folder; return whether there were any files."""
    found = unpack(data)
    if found is None:
        return False
    fmt, files = found
    for name, content in files.items():
        Path(folder, f"{name}.{fmt}").write_bytes(content)
    return True


def exported(snap: mr.Snapshot, fmt: str) -> bytes:
    """Return a dataset as export writes it."""
    files = {}
    for name in TABLES:
        out = io.BytesIO()
        WRITERS[fmt](table(snap, name), out)
        files[name] = out.getvalue()
    return pack(fmt, files)


# --- files ----------------------------------------------------------------------------------------


def load(fmt: str, data: bytes) -> pa.Table:
    """Load a file with pyarrow. memreplay has to handle the errors that pyarrow raises for a broken
    file, but not its crashes on invalid data.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if fmt == "parquet":
        made = pq.read_table(pa.BufferReader(data), use_threads=False)
    else:
        made = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    made.validate(full=True)
    return made


def save(fmt: str, made: pa.Table, rows: int = 1 << 16) -> bytes:
    """Write a file in batches or row groups of this many rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    if fmt == "parquet":
        pq.write_table(made, out, row_group_size=rows)
        return out.getvalue()
    with pa.ipc.new_file(out, made.schema) as writer:
        writer.write_table(made.unify_dictionaries(), max_chunksize=rows)
    return out.getvalue()


def changed_bytes(rng: random.Random, _: str, data: bytes) -> bytes:
    return raw.mutated(rng, data, rng.choice((1, 1, 2, 8)))


def cut(rng: random.Random, _: str, data: bytes) -> bytes:
    return raw.cut(rng, data)


def changed_element(rng: random.Random, fmt: str, data: bytes) -> bytes:
    """Change one number in one buffer of an Arrow file: an offset, an index, a size or an id."""
    if fmt == "parquet":
        return changed_values(rng, fmt, data)
    columns = [chunk for column in load(fmt, data).columns for chunk in column.chunks]
    if not columns:
        return data
    column = rng.choice(columns)
    buffers = [*column.buffers(), *(column.dictionary.buffers() if is_text(column) else ())]
    whole = [buffer.to_pybytes() for buffer in buffers if buffer is not None and buffer.size]
    if not whole:
        return data
    buffer = rng.choice(whole)
    width = min(rng.choice((1, 4, 4, 8)), len(buffer))
    at = data.find(buffer) + rng.randrange(len(buffer) // width) * width
    value = rng.choice(raw.EDGES) % (1 << 8 * width)
    return data[:at] + value.to_bytes(width, "little") + data[at + width :]


def changed_values(rng: random.Random, fmt: str, data: bytes) -> bytes:
    """Replace values in one column, some by nulls; or change the column's type, or remove it."""
    import pyarrow as pa

    made = load(fmt, data)
    at = rng.randrange(made.num_columns)
    field, values = made.schema.field(at), made.column(at).to_pylist()
    dice = rng.random()
    if dice < 0.05:
        return save(fmt, made.remove_column(at))
    if dice < 0.1:
        other = pa.nulls(made.num_rows, rng.choice((pa.int8(), pa.string(), pa.float64())))
        return save(fmt, made.set_column(at, field.name, other))
    for _ in range(rng.choice((1, 1, 3))):
        if values:
            values[rng.randrange(len(values))] = hostile(rng, field.type, values)
    new = pa.array(values, field.type)
    return save(fmt, made.set_column(at, pa.field(field.name, field.type), new))


def hostile(rng: random.Random, kind: Any, values: list[Any]) -> Any:
    """Return an odd value that the column can hold."""
    import pyarrow as pa

    if rng.random() < 0.2:
        return None
    if pa.types.is_dictionary(kind):
        return rng.choice((*TEXTS, "é" * 50, "\0", f"{rng.choice(raw.EDGES)}:0"))
    if pa.types.is_list(kind):
        return [rng.choice(raw.EDGES) % 2**32 for _ in range(rng.randrange(4))]
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if rng.random() < 0.3 and None not in values:
        return rng.choice(values)
    if str(kind).startswith(("int", "uint")):
        width, signed = kind.bit_width, str(kind).startswith("int")
        value = rng.choice((*raw.EDGES, *plain.SIZES)) % (1 << width)
        return value - (1 << width) if signed and value >> (width - 1) else value
    return None


def is_text(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_dictionary(column.type))


def batches_of_one(_: random.Random, fmt: str, data: bytes) -> bytes:
    return save(fmt, load(fmt, data), 1)


# --- datasets -------------------------------------------------------------------------------------


def restated(fmt: str, files: Files, change: Callable[[dict[str, Any]], object]) -> Files:
    """Change the number of rows, and the metadata about the snapshot, in the same way in every
    file.
    """
    tables = {name: load(fmt, data) for name, data in files.items()}
    said = json.loads(tables["events"].schema.metadata[SAID])
    said["rows"] = {name: made.num_rows for name, made in tables.items()}
    change(said)
    text = json.dumps(said).encode()
    for name, made in tables.items():
        files[name] = save(fmt, made.replace_schema_metadata({**made.schema.metadata, SAID: text}))
    return files


def other_rows(rng: random.Random, fmt: str, files: Files) -> Files:
    """Duplicate, reorder or remove a table's rows."""
    name = rng.choice(TABLES)
    made = load(fmt, files[name])
    if made.num_rows:
        rows = [rng.randrange(made.num_rows) for _ in range(rng.randrange(2 * made.num_rows))]
        files[name] = save(fmt, made.take(sorted(rows) if rng.random() < 0.5 else rows))
    return restated(fmt, files, lambda said: None)


def other_words(rng: random.Random, fmt: str, files: Files) -> Files:
    """Change the metadata about the snapshot."""

    def change(said: dict[str, Any]) -> None:
        place = said if rng.random() < 0.5 else said["prelude"]
        if place:
            key = rng.choice(list(place))
            place[key] = plain.odd_value(rng)
            json.dumps(said)

    try:
        return restated(fmt, files, change)
    except (TypeError, ValueError):  # not JSON
        return files


OF_ONE = (changed_bytes, changed_element, changed_element, changed_values, changed_values, cut)
OF_ALL = (other_rows, other_words)


def mutated(rng: random.Random, one: bytes, other: bytes) -> bytes:
    """Return a mutated dataset; `other` may provide a file."""
    (fmt, files), (lender, lent) = unpack(one) or ("", {}), unpack(other) or ("", {})
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice(TABLES)
        dice = rng.random()
        try:
            if dice < 0.03 and lender == fmt:
                files[name] = lent[name]
            elif dice < 0.06:
                files[name] = batches_of_one(rng, fmt, files[name])
            elif dice < 0.3:
                files = rng.choice(OF_ALL)(rng, fmt, files)
            else:
                files[name] = rng.choice(OF_ONE)(rng, fmt, files[name])
        except Exception:  # pyarrow may raise any exception for a broken file
            continue
    return pack(fmt, files)
