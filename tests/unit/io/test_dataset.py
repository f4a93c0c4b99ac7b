"""Tests of dataset.py: exported tables read back as the snapshot, and other folders are errors."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memreplay as mr
import memreplay._core as _core
from memreplay.analysis.trust.generation import generation
from memreplay.engine.read._adding import Adding
from memreplay.engine.write._dump import dump
from memreplay.errors import LimitError, SnapshotError
from memreplay.export.tables import Table, batching, table
from memreplay.export.tables.ipc import write_arrow
from memreplay.export.tables.parquet import write_parquet
from memreplay.io.dataset_files import TABLES
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder
from tests.conftest import ROOT
from tests.examples import examples
from tests.strategies import traces

WRITERS = {"parquet": write_parquet, "arrow": write_arrow}
FRAMES = [("f", "/a.py", 1), ("g", "/b.py", 2)]


def export(snap: mr.Snapshot, folder: Path, fmt: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in TABLES:
        with (folder / f"{name}.{fmt}").open("wb") as out:
            WRITERS[fmt](table(snap, name), out)
    return folder


def lines(snap: mr.Snapshot) -> list[dict[str, Any]]:
    """Return everything that was read, in `dump`'s format, minus what the tables leave out."""
    rows = [json.loads(line) for line in b"".join(dump(snap.native, True)).splitlines()]
    for row in rows:
        for key, nothing in (("compile_context", ("", "N/A")), ("user_metadata", ("",))):
            if row.get(key) in nothing:
                del row[key]
        # Tables also have the address of a block written by PyTorch 2.0.
        row.pop("address_given", None)
        if "real_size" in row:
            row["requested_size"] = row.pop("real_size")
    return rows


def simple() -> Any:
    builder = SnapshotBuilder(devices=2).alloc(0x1000, 64, frames=FRAMES)
    builder.alloc(0x2000, 128, frames=FRAMES[1:], pool_id=(0, 1), user_metadata={"step": 1})
    builder.free_completed(0x1000, 64).alloc(0x5000, 32, device=1)
    return builder.build()


@pytest.mark.parametrize("fmt", list(WRITERS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
@given(snapshot=traces(), rows=st.integers(1, 9))
def test_dataset_equals_the_snapshot(fmt: str, snapshot: Any, rows: int, tmp_path: Path) -> None:
    snap = mr.open(build.dump(snapshot))
    whole, batching.ROWS = batching.ROWS, rows
    try:
        again = mr.open(export(snap, tmp_path / "ds", fmt))
    finally:
        batching.ROWS = whole
        shutil.rmtree(tmp_path / "ds")
    assert lines(again) == lines(snap)
    assert again.devices == snap.devices
    assert again.settings == snap.settings
    assert again.container == fmt
    assert (again.protocol, again.stream_bytes) == (snap.protocol, snap.stream_bytes)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(30))
@given(made=recordings(max_steps=60), data=st.data())
def test_range_of_a_dataset_equals_that_of_the_snapshot(
    made: Recording, data: st.DataObject, tmp_path: Path
) -> None:
    pickled = build.dump(made.snapshot)
    whole = mr.open(pickled)
    folder = export(whole, tmp_path / "ds", "parquet")
    events = max((whole.trace_events(device) for device in whole.devices), default=0)
    start = data.draw(st.integers(0, events))
    stop = data.draw(st.integers(start, events))
    device = data.draw(st.sampled_from([None, *whole.devices]))
    part = mr.open(pickled, start=start, stop=stop, device=device)
    again = mr.open(folder, start=start, stop=stop, device=device)
    shutil.rmtree(folder)
    assert again.devices == part.devices
    for one in part.devices:
        for measure in ("requested", "held", "active", "allocated", "reserved"):
            ours = part.replay(one).measure(measure)
            theirs = again.replay(one).measure(measure)
            assert theirs.series.tolist() == ours.series.tolist()
            assert theirs.start_bytes == ours.start_bytes


def test_dataset_and_snapshot_name_the_same_pytorch(tmp_path: Path) -> None:
    """The tables alone don't show keys whose values are all empty."""
    builder = SnapshotBuilder(compile_context="N/A", user_metadata="").alloc(1, 64)
    snap = mr.open(build.dump(builder.build()))
    assert generation(snap) == "PyTorch 2.10 or later"
    again = mr.open(export(snap, tmp_path / "once", "parquet"))
    assert generation(again) == generation(snap)
    assert generation(mr.open(export(again, tmp_path / "twice", "arrow"))) == generation(snap)


def test_salvaged_snapshot_stays_marked(tmp_path: Path) -> None:
    data = build.dump(SnapshotBuilder().alloc(1, 64).alloc(2, 64).alloc(3, 64).build())
    snap = mr.open(data[: len(data) // 2], salvage=True)
    again = mr.open(export(snap, tmp_path, "parquet"))
    assert str(again.truncation) == str(snap.truncation)


@pytest.mark.slow
def test_dataset_of_a_real_snapshot_reads_the_same(corpus_file: Path, tmp_path: Path) -> None:
    snap = mr.open(corpus_file)
    again = mr.open(export(snap, tmp_path, "arrow"))
    assert lines(again) == lines(snap)
    assert generation(again) == generation(snap)


# --- folders that aren't datasets -----------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return export(mr.open(build.dump(simple())), tmp_path / "ds", "parquet")


def fails(folder: Path, words: str, **options: Any) -> None:
    with pytest.raises(SnapshotError, match=words) as raised:
        mr.open(folder, **options)
    assert "\n" not in str(raised.value)


def rewrite(folder: Path, name: str, change: Any) -> None:
    path = folder / f"{name}.parquet"
    pq.write_table(change(pq.read_table(path)), path)


def with_column(name: str, values: Any) -> Any:
    def change(made: pa.Table) -> pa.Table:
        at = made.schema.get_field_index(name)
        field = made.schema.field(at)
        new = pa.array(values, field.type) if isinstance(values, list) else values
        return made.set_column(at, field, new)

    return change


def test_missing_table_is_named(folder: Path) -> None:
    (folder / "stacks.parquet").unlink()
    fails(folder, r"stacks\.parquet is missing from the folder")


@pytest.mark.parametrize("fmt", list(WRITERS))
def test_truncated_table_is_an_error(fmt: str, tmp_path: Path) -> None:
    folder = export(mr.open(build.dump(simple())), tmp_path, fmt)
    whole = (folder / f"events.{fmt}").read_bytes()
    for size in range(0, len(whole), 97):
        (folder / f"events.{fmt}").write_bytes(whole[:size])
        fails(folder, rf"events\.{fmt}: not a whole {fmt} file")


@pytest.mark.slow
@pytest.mark.parametrize("fmt", list(WRITERS))
def test_damaged_dataset_raises_or_yields_a_valid_snapshot(fmt: str, tmp_path: Path) -> None:
    folder = export(mr.open(build.dump(simple())), tmp_path, fmt)
    rng = np.random.default_rng(1)
    for name in TABLES:
        path = folder / f"{name}.{fmt}"
        whole = path.read_bytes()
        for _ in range(60):
            broken = bytearray(whole)
            broken[int(rng.integers(len(whole)))] ^= int(rng.integers(1, 256))
            path.write_bytes(broken)
            with suppress(SnapshotError):
                snap = mr.open(folder)
                for device in snap.devices:
                    _ = snap.replay(device).measure("active").series
        path.write_bytes(whole)


def test_tables_of_two_snapshots_do_not_mix(folder: Path, tmp_path: Path) -> None:
    other = export(mr.open(ROOT / "tests/data" / "serving_oom.pkl.gz"), tmp_path / "o", "parquet")
    shutil.copy(other / "stacks.parquet", folder / "stacks.parquet")
    fails(folder, r"stacks\.parquet: not from the same snapshot as the other tables")


def test_folder_with_two_snapshots_requires_choosing_one_file(folder: Path, tmp_path: Path) -> None:
    export(mr.open(folder), folder, "arrow")
    assert mr.open(folder).container == "arrow"
    other = mr.open(build.dump(SnapshotBuilder().alloc(0x1000, 64).build()))
    export(other, folder, "arrow")
    fails(
        folder, r"holds tables of two snapshots, .*; pass a file of one, such as .*events\.parquet"
    )
    assert lines(mr.open(folder / "events.arrow")) == lines(other)
    assert mr.open(folder / "frames.parquet").native.n_events == 4
    (folder / "events.parquet").write_bytes(b"PAR1")
    assert lines(mr.open(folder)) == lines(other)


def test_missing_rows_are_counted_in_the_error(folder: Path) -> None:
    rewrite(folder, "events", lambda made: made.slice(1))
    fails(folder, r"events\.parquet: 3 rows instead of 4")


def test_table_not_written_by_memreplay_is_refused(folder: Path) -> None:
    rewrite(folder, "blocks", lambda made: made.replace_schema_metadata({}))
    fails(folder, r"blocks\.parquet: not written by memreplay export")


def test_table_of_another_version_is_refused(folder: Path) -> None:
    def change(made: pa.Table) -> pa.Table:
        return made.replace_schema_metadata({**made.schema.metadata, b"memreplay.schema": b"99"})

    rewrite(folder, "frames", change)
    fails(folder, r"frames\.parquet: from another version of memreplay's tables")


WHOLE = (
    b'{"prelude": {}, "rows": {}, "range": false, "truncated": null, "traces": 0, "protocol": 4,'
    b' "stream_bytes": 1.5}'
)


@pytest.mark.parametrize("said", [b"", b"[]", b"{", b'{"prelude": 1}', b"[" * 5000, WHOLE])
def test_table_without_its_snapshots_metadata_is_refused(said: bytes, folder: Path) -> None:
    def change(made: pa.Table) -> pa.Table:
        return made.replace_schema_metadata({**made.schema.metadata, b"memreplay.snapshot": said})

    rewrite(folder, "frames", change)
    fails(folder, r"frames\.parquet: does not say which snapshot it belongs to")


@pytest.mark.parametrize(
    "name, column, values, words",
    [
        ("events", "stack_id", [0, 99, 0, 0], "a row refers to something that does not exist"),
        ("events", "bytes", [1, 2, -3, 4], "an impossible size"),
        ("events", "bytes", [1, 2, 2**62 + 1, 4], "an impossible size"),
        ("events", "event_index", [0, 2, 1, 0], "not in their order"),
        ("events", "event_index", [0, 1, 2, 1], "not in their order"),
        ("events", "device", [0, 0, 0, 2], "in the wrong place"),
        ("events", "device", [0, 0, 1, 1], "not in their order"),
        ("events", "device", [-1, 0, 0, 1], "in the wrong place"),
        ("stacks", "frame_ids", [[], [9], []], "a row refers to something that does not exist"),
    ],
)
def test_impossible_values_are_refused(
    name: str, column: str, values: list[Any], words: str, folder: Path
) -> None:
    rewrite(folder, name, with_column(column, values))
    fails(folder, words)


@pytest.mark.parametrize("pool", ["1", "a:b", "1:2:3", f"{2**63}:0", "1:", ":" + "9" * 30])
def test_invalid_pool_ids_are_refused(pool: str, folder: Path) -> None:
    words = pa.array([pool]).dictionary_encode().cast(pa.dictionary(pa.int32(), pa.string()))
    rewrite(folder, "events", with_column("pool", pa.concat_arrays([words] * 4)))
    fails(folder, "is not a pool")


def test_column_with_another_type_is_refused(folder: Path) -> None:
    def change(made: pa.Table) -> pa.Table:
        at = made.schema.get_field_index("bytes")
        return made.set_column(at, "bytes", made["bytes"].cast(pa.int32()))

    rewrite(folder, "events", change)
    fails(folder, r"events\.parquet: the column bytes is int32, not int64")


def test_small_file_with_many_rows_exceeds_the_limit(folder: Path) -> None:
    rows = 1 << 22
    said = json.loads(pq.read_schema(folder / "events.parquet").metadata[b"memreplay.snapshot"])
    said["rows"]["stacks"] = rows
    many = pa.table({"frame_ids": pa.array([[]], pa.list_(pa.uint32()))}).take([0] * rows)

    def change(made: pa.Table) -> pa.Table:
        metadata = {
            **made.schema.metadata,
            b"memreplay.snapshot": json.dumps(said).encode(),
        }
        return made.replace_schema_metadata(metadata)

    for name in TABLES:
        rewrite(folder, name, change)
    made = many.replace_schema_metadata(
        {
            b"memreplay.table": b"stacks",
            b"memreplay.schema": b"1",
            b"memreplay.snapshot": json.dumps(said).encode(),
        }
    )
    pq.write_table(made, folder / "stacks.parquet")
    with pytest.raises(LimitError, match="more than 250 bytes out of one"):
        mr.open(folder)
    with pytest.raises(LimitError, match="rows of stacks, over the limit of 1000"):
        mr.open(folder, limits=mr.Limits(rows=1000))


def said_of(folder: Path, **changes: Any) -> None:
    """Change the metadata about the snapshot in all tables."""

    def change(made: pa.Table) -> pa.Table:
        said = json.loads(made.schema.metadata[b"memreplay.snapshot"]) | changes
        metadata = {
            **made.schema.metadata,
            b"memreplay.snapshot": json.dumps(said).encode(),
        }
        return made.replace_schema_metadata(metadata)

    for name in TABLES:
        rewrite(folder, name, change)


LONG = "x" * 5_000


@pytest.mark.parametrize("truncated", ["a\nb", "\x1b[31mred", LONG])
def test_truncation_note_with_several_lines_is_refused(truncated: str, folder: Path) -> None:
    said_of(folder, truncated=truncated)
    fails(folder, "does not say which snapshot it belongs to")


@pytest.mark.parametrize("rows", [LONG, "\x1b[31m", None, 1.5, [1]])
def test_invalid_row_counts_are_refused(rows: Any, folder: Path) -> None:
    said_of(folder, rows={"frames": rows})
    fails(folder, "does not say which snapshot it belongs to")


def test_text_quoted_by_pyarrow_is_escaped(folder: Path) -> None:
    def change(made: pa.Table) -> pa.Table:
        at = made.schema.get_field_index("bytes")
        odd = pa.array([{"\x1b[31m" + LONG: 1}] * made.num_rows)
        return made.set_column(at, "bytes", odd)

    rewrite(folder, "events", change)
    with pytest.raises(SnapshotError, match=r"the column bytes is struct<\\x1b\[31m") as error:
        mr.open(folder)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300


def test_metadata_that_starts_with_nul_reads_back(folder: Path) -> None:
    texts = ["\0", "\0[", "\0{}", '{"a": 1}']
    words = pa.array(texts).dictionary_encode().cast(pa.dictionary(pa.int32(), pa.string()))
    rewrite(folder, "events", with_column("user_metadata", words))
    snap = mr.open(folder)
    found = [snap.metadata(i) for i in snap.events.user_metadata.tolist()]
    assert found == ["\0", "\0[", "\0{}", {"a": 1}]


def test_errors_say_what_to_do(folder: Path) -> None:
    rewrite(folder, "blocks", lambda made: made.replace_schema_metadata({}))
    fails(folder, "; export the snapshot again")


def test_exported_range_is_refused(folder: Path) -> None:
    snap = mr.open(build.dump(simple()), start=1)
    export(snap, folder, "parquet")
    fails(folder, "has a range of a snapshot's events")


def test_missing_pyarrow_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(mr.MissingExtraError, match="reading a dataset needs pyarrow: pip install"):
        mr.open(folder)


def test_table_exported_again_is_identical(tmp_path: Path) -> None:
    snap = mr.open(ROOT / "tests/data" / "serving_oom.pkl.gz")
    again = mr.open(export(snap, tmp_path, "arrow"))
    for name in ("allocations", "usage", "events"):
        made: Table = mr.table(again, name)
        assert made.to_arrow().to_pylist() == mr.table(snap, name).to_arrow().to_pylist()


@pytest.mark.parametrize("short", range(7))
def test_frame_columns_of_different_lengths_are_refused(short: int) -> None:
    columns = [np.zeros(2, dtype="i8" if i == 2 else "u4") for i in range(7)]
    columns[short] = columns[short][:1]

    def then(tables: _core.Tables) -> tuple[int, int]:
        with pytest.raises(ValueError, match="same length"):
            Adding(tables).frames(*columns)
        return 4, 0

    snapshot = io.BytesIO(b'{"segments": [], "device_traces": []}')
    limits = mr.Limits()
    numbers = (
        limits.nesting_depth,
        limits.string_bytes,
        limits.stack_values,
        limits.memo_entries,
        limits.kept_values,
        limits.rows,
        limits.devices,
    )
    _core.read(snapshot.readinto, numbers, None, False, None, None, then)
