"""A few of the hostile queries, and two clients at once; `python -m tests.hostile_queries` has all
of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from memreplay.mcp.querying import MOST_MEMORY
from tests.hostile_queries.client import Client
from tests.hostile_queries.judging import Judge
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
    with Judge(str(folder), 2.0) as found:
        yield found


@pytest.mark.parametrize("name", QUICK)
def test_query_ends_within_its_limits(judge: Judge, name: str) -> None:
    (query,) = (one for one in known() if one.name == name[:60])
    assert list(judge.faults_of(query)) == []


def test_judge_sees_faults(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.hostile_queries.judging.MORE_BYTES", -MOST_MEMORY)
    monkeypatch.setattr("tests.hostile_queries.judging.MORE_SECONDS", -10)
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


@pytest.mark.slow
def test_other_client_is_not_slowed_down(folder: Path) -> None:
    """With two servers, one of which gets a stuck query all the time. Compares the medians of
    several calls, because other programs run, too.
    """
    calls = [
        ("peak", {"file": "small.pkl"}),
        ("sql", {"file": "small.pkl", "query": "select file, sum(bytes) from flat group by all"}),
    ]
    stuck = "select count(*) from range(1000000000000)"

    def seconds(client: Client, n: int) -> list[float]:
        found = []
        for tool, given in calls:
            taken = []
            for _ in range(n):
                started = time.monotonic()
                answered = client.call(tool, given, 60)
                taken.append(time.monotonic() - started)
                assert not answered.is_error
            found.append(sorted(taken)[n // 2])
        return found

    with Client(str(folder), 20.0) as hostile, Client(str(folder), 20.0) as other:
        seconds(other, 3)
        alone = seconds(other, 15)
        hostile.call("sql", {"file": "small.pkl", "query": "select 1"}, 60)
        given = {"file": "small.pkl", "query": stuck}
        thread = Thread(target=lambda: hostile.call("sql", given, 60))
        thread.start()
        time.sleep(1)
        together = seconds(other, 15)
        assert thread.is_alive()
        thread.join()
    for before, meanwhile in zip(alone, together, strict=True):
        assert meanwhile < 2 * before + 0.05
