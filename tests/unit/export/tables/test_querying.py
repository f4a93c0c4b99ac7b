"""Tests of export/tables/querying.py; the tests of the sql command cover results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("duckdb")

from memreplay.export.tables.querying import Queries


def test_too_little_memory_to_start_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the same as for any other lack of memory."""
    import duckdb

    def fail(*_: Any, **__: Any) -> None:
        raise duckdb.OutOfMemoryException("Allocation failure")

    monkeypatch.setattr(duckdb, "connect", fail)
    with pytest.raises(MemoryError, match="Allocation failure"):
        Queries({})


def test_out_of_memory_while_reading_a_table_is_a_memory_error() -> None:
    """DuckDB reports the error as text with a traceback."""
    pa = pytest.importorskip("pyarrow")

    def batches() -> Iterator[Any]:
        for _ in range(1):
            raise MemoryError("no memory left for replay")
        yield

    schema = pa.schema([("n", pa.int64())])
    queries = Queries({"t": pa.RecordBatchReader.from_batches(schema, batches())})
    with pytest.raises(MemoryError, match=r"^no memory left for replay$"):
        list(queries.result("select sum(n) from t") or ())
