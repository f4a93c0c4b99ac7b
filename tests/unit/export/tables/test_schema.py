"""Tests of export/tables/schema.py: the schema agrees with docs/schema.md."""

from __future__ import annotations

import re

import pytest

import memreplay as mr
from memreplay.errors import UsageError
from memreplay.export.tables.schema import TABLES, VERSION, table_spec, tables_named
from tests.conftest import ROOT

SCHEMA = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (\w+)(\??) \|", re.MULTILINE)


def test_page_lists_every_table_with_its_columns_types_and_order() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", SCHEMA, re.MULTILINE | re.DOTALL))
    said = {
        name: [(column, kind, bool(null)) for column, kind, null in ROW.findall(text)]
        for name, text in sections.items()
    }
    assert said == {
        name: [(column.name, column.type, column.nullable) for column in spec.columns]
        for name, spec in TABLES.items()
    }


def test_page_lists_the_columns_of_the_flat_form() -> None:
    (text,) = re.findall(r"^## The flat form of.*?(?=^## )", SCHEMA, re.MULTILINE | re.DOTALL)
    flat = table_spec("allocations", flat=True).columns
    own = TABLES["allocations"].columns
    assert flat[: len(own)] == own
    assert [(name, kind, bool(null)) for name, kind, null in ROW.findall(text)] == [
        (column.name, column.type, column.nullable) for column in flat[len(own) :]
    ]
    with pytest.raises(UsageError, match="the table usage has no flat form; only allocations has"):
        table_spec("usage", flat=True)


def test_page_names_the_version() -> None:
    assert f"(the version, now `{VERSION}`)" in " ".join(SCHEMA.split())


def test_page_lists_the_metadata() -> None:
    snap = mr.open(ROOT / "tests/data" / "serving_oom.pkl.gz")
    found = {key.decode() for key in mr.table(snap, "usage").schema.metadata}
    assert set(re.findall(r"`(memreplay\.\w+)`", SCHEMA)) == found


def test_unknown_table_lists_the_existing_ones() -> None:
    with pytest.raises(UsageError, match=r"'nonsense'; known: events, allocations, "):
        table_spec("nonsense")


def test_named_tables_are_listed_once_and_must_exist() -> None:
    assert tables_named("usage, events,usage") == ("usage", "events")
    with pytest.raises(UsageError, match="unknown table 'event'"):
        tables_named("usage,event")
    with pytest.raises(UsageError, match="no table was given"):
        tables_named(" ,")
