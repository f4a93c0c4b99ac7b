"""Queries can read only the tables. Their rows, time and memory are limited."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import rules_of
from memreplay.errors import UsageError
from memreplay.export.tables import TABLES
from memreplay.export.tables.joined import joined_tables
from memreplay.mcp import querying
from memreplay.mcp.querying import BOUNDS, LONGEST_CELL, MOST_ROWS, answer, listing, read_answer
from memreplay.workers.contained import Bounds, Contained
from tests.unit.mcp.conftest import snapshot


@pytest.fixture(scope="module")
def snap() -> mr.Snapshot:
    return mr.open(snapshot(3))


def run(snap: mr.Snapshot, query: str, bounds: Bounds = BOUNDS) -> list[str]:
    """Run a query as the server does, but without its host process."""
    tables = joined_tables({snap.file: snap}, rules_of({}, ""))
    with Contained(partial(answer, tables, query), bounds) as running:
        return [line.text for line in read_answer(b"".join(running))]


def refusal(snap: mr.Snapshot, query: str) -> str:
    with pytest.raises(UsageError) as caught:
        run(snap, query)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_are_counted_and_escaped(snap: mr.Snapshot) -> None:
    query = "select bytes, file, null as n from flat order by 1 limit 2"
    assert run(snap, query) == [
        "2 rows",
        "bytes | file | n",
        "512 | /home/a/train.py | null",
        "1024 | /home/a/train.py | null",
    ]
    assert run(snap, "select 1 where false") == ["0 rows", "1"]
    assert run(snap, "select 'a\n\x1b[0m' as x")[2] == "a\\n\\x1b[0m"


@pytest.mark.parametrize(
    "query",
    [
        "with a as (select 1 as x) select * from a",
        "describe events",
        "summarize blocks",
        "show tables",
        "explain select * from events",
        "values (1), (2)",
        "from events limit 1",
        "select 1; select 2",
    ],
)
def test_every_kind_of_query_returns_rows(snap: mr.Snapshot, query: str) -> None:
    assert len(run(snap, query)) > 1


def test_tables_are_listed(snap: mr.Snapshot) -> None:
    lines = [line.text for line in listing(joined_tables({snap.file: snap}, rules_of({}, "")))]
    assert [line.split(" ")[0] for line in lines] == [*TABLES, "flat"]
    assert lines[0].startswith("events (3 rows): device int32, event_index int64, action text?, ")


def test_number_of_rows_is_bounded(snap: mr.Snapshot) -> None:
    lines = run(snap, "select * from range(100000)")
    assert lines[0] == "the first 1,000 rows; aggregate, or page with limit and offset"
    assert len(lines) == MOST_ROWS + 2
    assert run(snap, f"select * from range({MOST_ROWS})")[0] == "1,000 rows"


def test_time_is_bounded(snap: mr.Snapshot) -> None:
    with pytest.raises(
        UsageError, match=r"took longer than 0\.5 s and was stopped; narrow it with where or limit"
    ):
        run(snap, "select count(*) from range(1000000000000)", BOUNDS._replace(seconds=0.5))


def test_memory_is_bounded(snap: mr.Snapshot) -> None:
    assert querying._SETTINGS["memory_limit"] == "512MB"
    words = "the query needs more than 1.0 GiB of memory; aggregate, or read fewer rows and columns"
    # DuckDB's own limit applies to the first query, but not to the others.
    assert refusal(snap, "select list(range) from range(1000000000)") == words
    assert refusal(snap, "select range(1000000000)") == words
    assert refusal(snap, "select length(repeat('a', 4294967290))") == words


@pytest.mark.parametrize(
    "query, start",
    [
        ("select repeat('x', 10000000) from range(9)", "x" * 1000),
        ("select repeat('\u00e9', 1000000) as x", "\u00e9" * 500),
        ("select repeat('x', 1000000)::blob", "7878"),
        ("select range(1000000)", "[0, 1, 2, 3, 4, "),
        ("select [range(100000), range(2)]", "[[0, 1, 2, "),
        ("select {{'a': repeat('y', 100000), 'b': 1}}", '{{"a": "yyyy'),
        ("select map([1, 2], [range(50000), [7]])", "[[1, [0, 1, 2, "),
        ("select list_value(null, repeat('z', 100000))", '[null, "zzz'),
        ("select range(20000)::double[]", "[0.0, 1.0, 2.0, "),
    ],
)
def test_long_cells_are_cut(snap: mr.Snapshot, query: str, start: str) -> None:
    lines = run(snap, query.replace("{{", "{").replace("}}", "}"))
    for line in lines[2:]:
        assert line.startswith(start.replace("{{", "{"))
        assert len(line) <= LONGEST_CELL


def test_many_columns_are_cut(snap: mr.Snapshot) -> None:
    """A row with 500 long cells takes no more room than a few of them."""
    columns = ", ".join(["repeat('x', 100000)"] * 500)
    lines = run(snap, f"select {columns}")
    assert len(lines[2]) <= querying.LONGEST_ROW + LONGEST_CELL


@pytest.mark.parametrize(
    "value",
    [
        r"{'a': [1, null, 2.5], 'b': 'x\ny', 'c': true, 'd': map {'k': 1, 'm': null}}",
        "{'t': timestamp '2020-01-01 00:00:01', 'd': 1.5::decimal(5, 2), 'b': 'ab'::blob}",
        "{'h': 1::hugeint, 'f': 'nan'::double, 'i': interval 1 day, 'u': 'é'}",
    ],
)
def test_text_is_the_same_whether_a_value_is_cut_or_not(snap: mr.Snapshot, value: str) -> None:
    (short,) = run(snap, f"select {value} as x")[2:]
    (long,) = run(snap, f"select list_resize([{value}], 9000, {value}) as x")[2:]
    assert long.startswith(f"[{short}, {short}")


CHANGES = "SQL: only queries can run here: select, with, describe, summarize, explain"


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1) to '{0}/out.csv'",
        "attach '{0}/x.db' as x",
        "attach ':memory:' as x",
        "export database '{0}/out'",
        "import database '{0}'",
        "install httpfs",
        "load '{0}/x.so'",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "pragma enable_profiling",
        "create table t as select 1",
        "create macro f() as 1",
        "create secret s (type http)",
        "create persistent secret s (type http)",
        "drop view events",
        "delete from events",
        "insert into events select * from events",
        "call enable_logging()",
        "checkpoint",
        "vacuum",
        "use memory",
        "select 1; attach ':memory:' as x; select 2",
        "prepare p as select 1",
        "begin",
    ],
)
def test_queries_change_nothing(snap: mr.Snapshot, query: str, tmp_path: Path) -> None:
    found = refusal(snap, query.format(tmp_path))
    # Old versions of duckdb read the imported file before they report the kind of query.
    assert found == CHANGES or "file system operations are disabled by configuration" in found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "query",
    [
        "select * from '{0}/x.csv'",
        "select * from read_csv('{0}/x.csv')",
        "select * from read_text('/etc/passwd')",
        "select * from read_blob('{0}/x.csv')",
        "select * from read_parquet('{0}/x.csv')",
        "select * from read_json('{0}/x.csv')",
        "select * from sniff_csv('{0}/x.csv')",
        "select * from glob('{0}/*')",
        "select * from parquet_metadata('{0}/x.csv')",
        "select * from query_table('{0}/x.csv')",
        "select * from query('from read_text(''{0}/x.csv'')')",
        "select * from 'https://127.0.0.1:9/x.csv'",
        "select * from 's3://bucket/x.parquet'",
        "summarize from '{0}/x.csv'",
    ],
)
def test_queries_read_no_files(snap: mr.Snapshot, query: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("secret\n1\n")
    said = refusal(snap, query.format(tmp_path))
    assert "secret" not in said
    assert "--allow-files" not in said


def test_denied_access_is_explained(snap: mr.Snapshot) -> None:
    said = refusal(snap, "select * from read_text('/etc/passwd')")
    assert said.endswith("; a query sees only the tables: no files, network or extensions")


def test_python_variables_are_not_tables(snap: mr.Snapshot) -> None:
    secret = [1]  # noqa: F841 - what a query may not see
    assert "secret" in refusal(snap, "select * from secret")


def test_invalid_sql_is_refused(snap: mr.Snapshot) -> None:
    assert refusal(snap, "selekt 1").startswith("SQL: ")
    assert refusal(snap, "select nothing from events").startswith("SQL: ")
    assert refusal(snap, "-- nothing") == "the query is empty"
    assert "it is a column of" in refusal(snap, "select category from events")


def test_stored_secrets_are_inaccessible(snap: mr.Snapshot) -> None:
    assert run(snap, "select count(*) from duckdb_secrets()")[2] == "0"
