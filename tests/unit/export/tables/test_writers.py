"""Tests of export/tables/: parquet, ipc and lines, read by pyarrow, duckdb and polars."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import memreplay as mr
from memreplay.export.tables import TABLES, Table, batching, table
from memreplay.export.tables.ipc import write_arrow
from memreplay.export.tables.lines import write_csv, write_json, write_ndjson
from memreplay.export.tables.parquet import write_parquet
from tests import build
from tests.allocator_strategies import record
from tests.build import SnapshotBuilder
from tests.conftest import ROOT

Write = Callable[[Table, IO[bytes]], None]
MEASURES = ("requested", "held", "active", "allocated", "reserved")
WRITERS: dict[str, Write] = {
    "parquet": write_parquet,
    "arrow": write_arrow,
    "csv": write_csv,
    "ndjson": write_ndjson,
    "json": write_json,
}


@pytest.fixture(scope="module")
def snaps() -> list[mr.Snapshot]:
    """Return three snapshots: one with real stacks and annotations, one with pools, streams and two
    devices, and an empty one.
    """
    machine = record(4, steps=400, devices=2, late=50)
    return [
        mr.open(ROOT / "tests/data" / "transformer_step.pkl.gz"),
        mr.open(build.dump(machine.snapshot)),
        mr.open(build.dump(SnapshotBuilder().build())),
        mr.open(build.dump(hostile())),
    ]


def hostile() -> Any:
    """Build names that resemble a writer's own markers, and extreme times and sizes."""
    names = ['a"b', "c,d", "e\nf", "g\\h", "ü\u2028", "\x00\x1b[31m", "'; drop table x; --", "=1+1"]
    builder = SnapshotBuilder()
    for i, name in enumerate(names):
        frames = [(name, name[::-1], i)]
        builder.alloc(2**63 + i, 2**40 + i, frames=frames, user_metadata={name: name}, stream=2**63)
    return builder.build()


def written(made: Table, write: Write) -> bytes:
    out = io.BytesIO()
    write(made, out)
    return out.getvalue()


def read(data: bytes, fmt: str, schema: pa.Schema) -> list[dict[str, Any]]:
    """Read the rows of a file with each format's real reader."""
    if fmt == "parquet":
        found = pq.read_table(io.BytesIO(data))
        assert found.schema == schema
        return found.to_pylist()  # type: ignore[no-any-return]
    if fmt == "arrow":
        found = pa.ipc.open_file(data).read_all()
        assert found.schema == schema
        return found.to_pylist()  # type: ignore[no-any-return]
    if fmt == "json":
        return json.loads(data)  # type: ignore[no-any-return]
    if fmt == "ndjson":
        return [json.loads(line) for line in data.decode("ascii").split("\n")[:-1]]
    return [
        {name: parsed(row[name], schema.field(name).type) for name in row}
        for row in csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""))
    ]


def parsed(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return [int(one) for one in text.split(";")] if text else []
    if pa.types.is_dictionary(kind):
        return text
    if text == "":
        return None
    return text == "true" if pa.types.is_boolean(kind) else int(text)


@pytest.mark.slow
@pytest.mark.parametrize("fmt", list(WRITERS))
@pytest.mark.parametrize("rows", [7, 1 << 16])
def test_tables_round_trip_in_every_format(
    fmt: str, rows: int, snaps: list[mr.Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "ROWS", rows)
    for snap in snaps:
        for name in TABLES:
            if len(table(snap, name)) > 3000 and rows == 7:
                continue
            made = table(snap, name)
            batches = list(made.file_batches())
            expected = pa.Table.from_batches(batches, made.file_schema).to_pylist()
            if fmt == "csv":  # it has no null strings
                texts = {column.name for column in made.spec.columns if column.type == "text"}
                expected = [
                    {
                        key: ("" if key in texts and value is None else value)
                        for key, value in row.items()
                    }
                    for row in expected
                ]
            assert read(written(made, WRITERS[fmt]), fmt, made.file_schema) == expected


@pytest.mark.parametrize("fmt", list(WRITERS))
def test_output_is_deterministic(fmt: str, snaps: list[mr.Snapshot]) -> None:
    for name in TABLES:
        made = table(snaps[1], name)
        assert written(made, WRITERS[fmt]) == written(made, WRITERS[fmt])


def test_parquet_is_small_and_has_row_groups(snaps: list[mr.Snapshot], tmp_path: Path) -> None:
    data = written(table(snaps[0], "events"), write_parquet)
    meta = pq.read_metadata(io.BytesIO(data))
    assert meta.num_rows == 10_000
    column = meta.row_group(0).column(2)
    assert column.compression == "ZSTD"
    assert len(data) * 4 < len(written(table(snaps[0], "events"), write_arrow))


def many_words(devices: int) -> Table:
    """Build a few events per device, each with a different word of 1,000 letters."""
    builder = SnapshotBuilder(devices)
    for i in range(64):
        builder.alloc(4096 * (i + 1), 512, i % devices, user_metadata=f"{i % 60:4}" * 250)
    builder.alloc(4096, 512)
    return table(mr.open(build.dump(builder.build())), "events")


@pytest.mark.parametrize("devices, rows", [(1, 8), (8, 1 << 16)])
def test_parquet_stores_words_next_to_their_rows(
    monkeypatch: pytest.MonkeyPatch, devices: int, rows: int
) -> None:
    """If each row group held all words, file size and time would grow quadratically."""
    made = many_words(devices)
    want = read(written(made, write_parquet), "parquet", made.file_schema)
    monkeypatch.setattr(batching, "ROWS", rows)
    data = written(made, write_parquet)
    assert read(data, "parquet", made.file_schema) == want
    said = pq.ParquetFile(io.BytesIO(data)).metadata
    at = made.file_schema.names.index("user_metadata")
    columns = [said.row_group(i).column(at) for i in range(said.num_row_groups)]
    assert len(columns) == 9 - (devices > 1)
    assert sum(one.total_uncompressed_size for one in columns) < 65 * 1100


def test_ndjson_writes_words_in_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    spelled: list[str] = []

    def inert(text: str) -> str:
        spelled.append(text)
        return text

    monkeypatch.setattr("memreplay.export.tables.lines.json_inert", inert)
    made = many_words(8)
    assert len(written(made, write_ndjson).splitlines()) == len(made)
    assert sum("  " in one for one in spelled) <= 64


@pytest.mark.parametrize("fmt", ["parquet", "arrow", "csv"])
def test_duckdb_and_polars_sums_match_the_engine(
    fmt: str, snaps: list[mr.Snapshot], tmp_path: Path
) -> None:
    readers: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "parquet": ("read_parquet('{}')", polars.read_parquet),
        "arrow": ("frame", polars.read_ipc),
        "csv": ("read_csv('{}')", polars.read_csv),
    }
    for snap in snaps[:2]:
        for name in ("usage", "allocations"):
            path = tmp_path / f"{name}.{fmt}"
            path.write_bytes(written(table(snap, name), WRITERS[fmt]))
        sql, load = readers[fmt]
        for device in snap.devices:
            replay = snap.replay(device)
            frame = load(tmp_path / f"usage.{fmt}")
            mine = frame.filter(polars.col("device") == device)
            assert len(mine) == replay.events + 1
            for measure in MEASURES:
                column = f"{measure}_bytes"
                usage = replay.measure(measure)  # type: ignore[arg-type]
                assert mine[column].max() == usage.peak.bytes
                source = sql.format(tmp_path / f"usage.{fmt}")
                found = duckdb.execute(
                    f"select max({column}), arg_max(coalesce(event_index, -1), {column}),"
                    f" last({column} order by coalesce(event_index, -1)) from {source}"
                    f" where device = {device}"
                ).fetchall()[0]
                assert (found[0], found[2]) == (usage.peak.bytes, usage.end_bytes)
            frame = load(tmp_path / f"allocations.{fmt}")
            source = sql.format(tmp_path / f"allocations.{fmt}")
            at = replay.peak.event_index
            live = duckdb.execute(
                f"select sum(bytes), sum(block_bytes) from {source} where device = {device}"
                f" and coalesce(alloc_event, -1) <= {at}"
                f" and coalesce(free_event, {2**62}) > {at}"
            ).fetchall()
            assert live == [(replay.peak.bytes, replay.measure("active").bytes_at(at))]
            assert frame.filter(polars.col("device") == device)["bytes"].sum() == int(
                replay.lifetimes.size.sum()
            )


@pytest.mark.parametrize("freed", [True, False])
def test_sql_in_the_docs_finds_a_peak_before_the_first_event(
    freed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [{"name": "f", "filename": "f.py", "line": 1}]
    event = {"action": "free_completed", "addr": 4096, "size": 512, "stream": 0, "frames": frames}
    snap = mr.open(build.dump({"segments": [], "device_traces": [[event]]}))
    if not freed:
        block = {"address": 4096, "size": 512, "requested_size": 512, "state": "active_allocated"}
        segment = {"device": 0, "address": 4096, "total_size": 1 << 21, "blocks": [block]}
        snap = mr.open(build.dump({"segments": [segment], "device_traces": [[]]}))
    assert (snap.replay(0).peak.bytes, snap.replay(0).peak.event_index) == (512, -1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    for name in ("usage", "allocations"):
        (tmp_path / "tables" / f"{name}.parquet").write_bytes(
            written(table(snap, name), write_parquet)
        )
    sql = (ROOT / "docs" / "export.md").read_text().split("```sql\n")[1].split("```")[0]
    # Without events nothing shows that there was a recording.
    before = "before the recording: parameters, optimizer state, buffers"
    assert duckdb.execute(sql).fetchall() == [(before if freed else "unknown", 512, 1)]


@pytest.mark.parametrize("fmt", list(WRITERS))
def test_full_disk_is_an_os_error(fmt: str, snaps: list[mr.Snapshot]) -> None:
    with pytest.raises(OSError), open("/dev/full", "wb") as full:  # noqa: PT011
        WRITERS[fmt](table(snaps[0], "events"), full)
