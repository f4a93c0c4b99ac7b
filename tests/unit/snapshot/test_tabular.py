"""Tests of snapshot/tabular.py: reading all tables as rows, and passing them to other libraries."""

from __future__ import annotations

import datetime
import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest

import memreplay as mr
from memreplay.errors import MissingExtraError, UsageError
from memreplay.export.tables import TABLES, batching
from memreplay.snapshot import snapshot as module
from tests.conftest import ROOT

EXAMPLE = ROOT / "tests/data" / "serving_oom.pkl.gz"
UTC = datetime.timezone.utc

MADE: dict[str, Callable[[mr.Snapshot], Any]] = {
    **{name: partial(mr.table, name=name) for name in TABLES},
    "events'": lambda snap: snap.events,
    "allocations'": lambda snap: snap.allocations,
    "stacks'": lambda snap: snap.stacks,
    "frames'": lambda snap: snap.frames,
    "segments'": lambda snap: snap.segments,
    "blocks'": lambda snap: snap.blocks,
    "annotations'": lambda snap: snap.annotations,
    "ooms": lambda snap: snap.ooms,
    "live set": lambda snap: snap.replay().live_at(event=100),
    "lifetimes": lambda snap: snap.replay().lifetimes,
}


@pytest.fixture(scope="module")
def snap() -> mr.Snapshot:
    return mr.open(EXAMPLE)


@pytest.mark.parametrize("name", MADE)
def test_every_public_table_is_tabular(name: str, snap: mr.Snapshot) -> None:
    made = MADE[name](snap)
    whole = pa.table(made)  # through the PyCapsule interface
    whole.validate(full=True)
    assert whole.schema == pa.schema(made) == made.to_arrow().schema
    assert made.columns == tuple(whole.schema.names)
    assert len(made) == whole.num_rows
    for by_stream, by_call in (
        (polars.DataFrame(made), made.to_polars()),
        (polars.from_arrow(whole), made.to_polars()),
    ):
        assert by_stream.equals(by_call)
    assert duckdb.execute("select count(*) from made").fetchall() == [(len(made),)]
    frame = made.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert (tuple(frame.columns), len(frame)) == (made.columns, len(made))
    assert all(
        (field.type == pa.timestamp("us", "UTC")) == field.name.endswith("_us")
        for field in whole.schema
    )
    for field in whole.schema:
        if field.name.endswith("_us"):
            assert str(frame[field.name].dtype) == "datetime64[us, UTC]"
    few = min(len(made), 3)
    expected = whole.slice(0, few).to_pylist()
    rows = [row for row, _ in zip(made, range(few))]  # noqa: B905
    assert rows == [made[at] for at in range(few)] == made[:few] == expected
    if few:
        assert made[-1] == whole.slice(len(made) - 1).to_pylist()[0]
    for wrong in (len(made), -len(made) - 1):
        with pytest.raises(IndexError):
            made[wrong]


def test_rows_do_not_depend_on_the_batch_size(
    snap: mr.Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "ROWS", 7)
    made = mr.table(snap, "events")
    expected = made.to_arrow().to_pylist()
    asked = (0, 20, 6, 7, -1, 19, 20)
    assert [made[at] for at in asked] == [expected[at] for at in asked]
    assert made[5:30:4] == expected[5:30:4]
    assert list(made) == expected


def test_times_match_the_file(snap: mr.Snapshot) -> None:
    micros = int(snap.events.time_us[0])
    epoch = datetime.datetime(1970, 1, 1, tzinfo=UTC)
    moment = epoch + datetime.timedelta(microseconds=micros)
    assert snap.events[0]["time_us"] == moment
    assert snap.events.to_pandas()["time_us"][0] == pandas.Timestamp(micros, unit="us", tz="UTC")
    assert snap.events.to_polars()["time_us"][0] == moment
    found = duckdb.from_arrow(snap.events).aggregate("min(epoch_us(time_us))").fetchall()
    assert found == [(micros,)]


def test_table_outlives_its_snapshot() -> None:
    """There's no reference cycle, so dropping the last name frees the memory."""
    snap = mr.open(EXAMPLE, start=1000)
    gc.disable()
    try:
        events, gone = snap.events, weakref.ref(snap)
        before = [events[0], snap.segments[0], snap.frames[1]], events.to_arrow()
        assert snap.allocations[0]
        rest = snap.segments, snap.frames
        del snap
        assert gone() is None
    finally:
        gc.enable()
    events._last = None
    assert ([events[0], rest[0][0], rest[1][1]], events.to_arrow()) == before
    assert events[0]["event_index"] == 1000


@pytest.mark.parametrize(
    "package, call, words",
    [
        ("pyarrow", "snap.events.to_pandas()", "tables need pyarrow: pip install 'pyarrow"),
        ("pyarrow", "snap.events[0]", r"tables need pyarrow: .*\(the extra 'parquet'\)$"),
        ("pyarrow", "snap.replay().lifetimes.to_arrow()", "tables need pyarrow"),
        ("pyarrow", "snap.events.__arrow_c_stream__()", "tables need pyarrow"),
        ("pandas", "snap.events.to_pandas()", "needs pandas: pip install pandas"),
        ("polars", "snap.ooms.to_polars()", "needs polars: pip install polars"),
    ],
)
def test_missing_package_is_named(
    package: str, call: str, words: str, snap: mr.Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    snap.events._last = None
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=words):
        eval(call, {"snap": snap})


def test_array_columns_need_no_package(snap: mr.Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    live = snap.replay().live_at(event=100)
    assert live.columns == ("alloc_event", "address", "size", "stack")
    assert sum(row["size"] for row in live) == live.bytes
    assert type(live[0]["size"]) is int


def test_wrong_ways_to_open_a_table_are_explained(
    snap: mr.Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_offered", [])
    with pytest.raises(UsageError, match=r"opened with memreplay\.open"):
        _ = snap.allocations


def test_opening_does_not_import_numpy() -> None:
    code = (
        "import sys, memreplay as mr\n"
        f"mr.open({str(EXAMPLE)!r})\n"
        "print({'pyarrow', 'pandas', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
