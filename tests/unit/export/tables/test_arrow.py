"""Tests of export/tables/arrow.py: columns from buffers, and a table that other libraries
accept.
"""

from __future__ import annotations

import subprocess
import sys

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest

import memreplay as mr
from memreplay.errors import LimitError, MissingExtraError
from memreplay.export.tables import TABLES, arrow
from memreplay.snapshot.arrow_columns import time_type
from tests.conftest import ROOT

EXAMPLE = ROOT / "tests/data" / "transformer_step.pkl.gz"


@pytest.fixture(scope="module")
def snap() -> mr.Snapshot:
    return mr.open(EXAMPLE)


def test_texts_are_decoded_and_escaped() -> None:
    words = arrow.dictionary_array(["a", "", "ü\ud800"])
    found = arrow.texts(np.array([2, 0, 1]), words, np.array([False, True, False]))
    found.validate(full=True)
    assert found.to_pylist() == ["ü\\ud800", None, ""]


def test_more_text_than_an_offset_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_MOST_TEXT", 3)
    with pytest.raises(LimitError, match="4 bytes of names"):
        arrow.dictionary_array(["ab", "cd"])


def test_other_libraries_import_the_table(snap: mr.Snapshot) -> None:
    allocations = mr.table(snap, "allocations")
    total = sum(pa.table(allocations)["bytes"].to_pylist())
    assert polars.DataFrame(allocations)["bytes"].sum() == total
    assert allocations.to_polars()["bytes"].sum() == total
    assert duckdb.execute("select sum(bytes) from allocations").fetchall() == [(total,)]
    assert allocations.to_pandas()["bytes"].sum() == total
    # A table can be read any number of times.
    assert pa.RecordBatchReader.from_stream(allocations).read_all().num_rows == len(allocations)
    assert repr(allocations) == f"<Table allocations: {len(allocations)} rows>"


def test_schemas_match_the_specification(snap: mr.Snapshot) -> None:
    for name, spec in TABLES.items():
        table = mr.table(snap, name)
        assert pa.schema(table) == table.schema == table.to_arrow().schema
        assert table.schema.metadata[b"memreplay.table"] == name.encode()
        assert table.schema.metadata[b"memreplay.schema"] == b"1"
        assert table.schema.metadata[b"memreplay.file"] == str(EXAMPLE).encode()
        for field, stored, column in zip(
            table.schema, table.file_schema, spec.columns, strict=True
        ):
            kind = {
                "text": pa.dictionary(pa.int32(), pa.string()),
                "ids": pa.list_(pa.field("element", pa.uint32(), nullable=False)),
                "bool": pa.bool_(),
            }.get(column.type) or pa.type_for_alias(column.type)
            assert (stored.name, stored.type) == (column.name, kind)
            assert (field.name, field.type) == (column.name, time_type(column.name) or kind)
            assert field.nullable == stored.nullable == column.nullable


@pytest.mark.parametrize(
    "package, call",
    [
        ("pyarrow", "mr.table(snap, 'usage')"),
        ("pandas", "mr.table(snap, 'usage').to_pandas()"),
        ("polars", "mr.table(snap, 'usage').to_polars()"),
    ],
)
def test_missing_package_is_named(
    package: str, call: str, snap: mr.Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=f"needs? {package}: pip install"):
        eval(call, {"mr": mr, "snap": snap})


def test_pandas_is_not_imported() -> None:
    """Importing pandas would take longer than a 100 MB export, and 60 MiB of memory."""
    code = (
        "import sys, memreplay as mr\n"
        f"snap = mr.open({str(EXAMPLE)!r})\n"
        f"for name in {list(TABLES)}: list(mr.table(snap, name).batches())\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
