"""A few of the hostile queries, and two clients at once; `python -m tests.hostile_queries` has all
of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memreplay.mcp.querying import MOST_MEMORY
from tests.hostile_queries.judging import Judge, two_clients
from tests.hostile_queries.queries import Query, known, of_functions
from tests.unit.mcp.conftest import snapshot

pytest.importorskip("duckdb")
pytest.importorskip("mcp")

QUICK = (
    "select range(100000000)",
    "select len(range(1000000000))",
    "select length(repeat('a',4294967290))",
    "select list_sort(range(50000000))",
    "union of 20,000",
    "lambdas of depth 10,000",
    "casts of depth 100,000",
    "select count(*) from range(1000000000000)",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("dumps")
    (found / "small.pkl").write_bytes(snapshot(100))
    return found


@pytest.fixture(scope="module")
def judge(folder: Path) -> Iterator[Judge]:
    # Other tests run at the same time, so allow more time here.
    with Judge(str(folder), 2.0, more_seconds=30.0) as found:
        yield found


@pytest.mark.parametrize("name", QUICK)
def test_query_ends_within_its_limits(judge: Judge, name: str) -> None:
    (query,) = (one for one in known() if one.name == name[:60])
    assert list(judge.faults_of(query)) == []


def test_judge_sees_faults(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.hostile_queries.judging.MORE_BYTES", -MOST_MEMORY)
    monkeypatch.setattr(judge, "more_seconds", -10)
    query = Query("", "select len(range(100000000)), count(*) from range(10000000000)")
    took, memory, *after = judge.faults_of(query)
    assert took.startswith("took ")
    assert memory.endswith(" MiB")
    assert after


def test_calls_are_generated_for_every_kind_of_argument() -> None:
    listed = [
        ("lpad", "scalar", ["VARCHAR", "INTEGER", "VARCHAR"], ""),
        ("lpad", "scalar", ["VARCHAR"], ""),
        ("concat", "scalar", [], "ANY"),
        ("sum", "aggregate", ["DOUBLE"], ""),
    ]
    found = {query.name: query.sql for query in of_functions(listed)}
    assert found == {
        "large lpad": "select \"lpad\"(repeat('a', 100000000), 2147483647, repeat('a', 100000000))",
        "many lpad": "select \"lpad\"('ab', 2147483647, 'ab') from range(2048)",
        "large concat": "select \"concat\"(repeat('a', 100000000), repeat('a', 100000000))",
        "many concat": "select \"concat\"('ab', 'ab') from range(2048)",
        "large sum": 'select "sum"(1e308) from range(2048)',
        "many sum": 'select "sum"(2147483647::double) from range(2048)',
    }


def test_stuck_query_does_not_hold_up_another_client(folder: Path) -> None:
    """`python -m tests.hostile_queries` measures how much it slows the other client down."""
    assert all(beside > 0 for _, beside in two_clients(str(folder), 1))
