"""Queries can read only the tables, and stop at a number of rows, at a time limit, or when all
callers cancel.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event, Timer

import pytest

import memreplay as mr
from memreplay.analysis.categories.rules import rules_of
from memreplay.errors import UsageError
from memreplay.export.tables import TABLES
from memreplay.mcp import querying
from memreplay.mcp.calls import StoppedError
from memreplay.mcp.querying import MOST_ROWS, queried
from tests.unit.mcp.conftest import snapshot

ENDLESS = "select count(*) from range(1000000000000)"


@pytest.fixture(scope="module")
def snap() -> mr.Snapshot:
    return mr.open(snapshot(3))


def run(
    snap: mr.Snapshot, query: str, seconds: float = 60.0, stop: Event | None = None
) -> list[str]:
    lines = queried(snap, rules_of({}, ""), query, stop or Event(), seconds=seconds)
    return [line.text for line in lines]


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


@pytest.mark.parametrize("query", ["", "  \n"])
def test_without_a_query_the_tables_are_listed(snap: mr.Snapshot, query: str) -> None:
    lines = run(snap, query)
    assert [line.split(" ")[0] for line in lines] == [*TABLES, "flat"]
    assert lines[0].startswith("events (3 rows): device int32, event_index int64, action text?, ")


def test_number_of_rows_is_bounded(snap: mr.Snapshot) -> None:
    lines = run(snap, "select * from range(100000)")
    assert lines[0] == "the first 1,000 rows; aggregate, or page with limit and offset"
    assert len(lines) == MOST_ROWS + 2
    assert run(snap, f"select * from range({MOST_ROWS})")[0] == "1,000 rows"


def test_time_is_bounded(snap: mr.Snapshot) -> None:
    with pytest.raises(
        UsageError, match=r"took longer than 0\.2 s and was stopped; narrow it with where or limit"
    ):
        run(snap, ENDLESS, seconds=0.2)


def test_query_stops_when_all_callers_cancel(snap: mr.Snapshot) -> None:
    stop = Event()
    Timer(0.2, stop.set).start()
    with pytest.raises(StoppedError):
        run(snap, ENDLESS, seconds=10, stop=stop)


def test_memory_is_bounded(snap: mr.Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    assert querying._SETTINGS["memory_limit"] == "512MB"
    monkeypatch.setitem(querying._SETTINGS, "memory_limit", "40MB")
    said = refusal(snap, "select list(range) from range(1000000000)")
    assert "SQL: " in said
    assert "memory" in said.lower()


def test_long_rows_are_cut(snap: mr.Snapshot) -> None:
    said = refusal(snap, "select repeat('x', 10000000) from range(9)")
    assert said == "the rows are too long; shorten them with substr, or use limit"
    assert len(run(snap, "select repeat('x', 1000000)")) == 3


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
