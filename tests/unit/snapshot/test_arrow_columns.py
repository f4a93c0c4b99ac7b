"""Tests of snapshot/arrow_columns.py: NumPy columns as Arrow columns, times as timestamps."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa

from memreplay.snapshot.arrow_columns import (
    batch_of,
    numbers,
    pandas_frame,
    row_of,
    time_type,
    timed_schema,
)

UTC = datetime.timezone.utc


def test_numbers_become_arrow_arrays() -> None:
    every_other = np.arange(6, dtype=np.uint32)[::2]
    assert numbers(every_other).to_pylist() == [0, 2, 4]
    assert numbers(np.broadcast_to(np.int64(7), 3)).to_pylist() == [7, 7, 7]
    missing = numbers(np.arange(3), np.array([False, True, False]))
    missing.validate(full=True)
    assert (missing.to_pylist(), missing.null_count) == ([0, None, 2], 1)
    assert numbers(np.array([True, False] * 5)).to_pylist() == [True, False] * 5
    assert numbers(np.zeros(0)).to_pylist() == []


def test_time_columns_are_recognized_by_name() -> None:
    moment, length = pa.timestamp("us", "UTC"), pa.duration("us")
    for name in ("time_us", "alloc_us", "start_us", "end_us", "first_us", "free_us"):
        assert time_type(name) == moment
    for name in ("age_us", "mean_lifetime_us", "duration_us", "step_us", "after_us"):
        assert time_type(name) == length
    assert time_type("bytes") is None
    # Only int64 columns have times.
    texts = pa.schema([("time_us", pa.string()), ("bytes", pa.int64())], metadata={"a": "b"})
    assert timed_schema(texts) == texts
    assert timed_schema(texts).metadata == {b"a": b"b"}


def test_row_is_a_dict_of_python_values() -> None:
    """A file may contain any time; times that `datetime` can't represent aren't an error."""
    times = pa.array([0, None, 2**62], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([times], names=["time_us"])
    assert row_of(batch, 0) == {"time_us": datetime.datetime.fromtimestamp(0, UTC)}
    assert row_of(batch, 1) == {"time_us": None}
    assert row_of(batch, 2) == {"time_us": np.datetime64(2**62, "us")}


def test_nullable_integers_stay_integers_in_pandas() -> None:
    large = 2**53 + 1  # float64 can't represent this number
    table = pa.table({"bytes": [large, None], "address": pa.array([1, 2], pa.uint64())})
    frame = pandas_frame(table)
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "uint64"]
    assert frame["bytes"][0] == large


def test_columns_become_a_batch() -> None:
    found = batch_of({"size": np.arange(3), "stack": np.zeros(3, dtype=np.uint32)})
    assert found.to_pydict() == {"size": [0, 1, 2], "stack": [0, 0, 0]}
