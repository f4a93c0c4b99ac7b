"""Judge a query: it ends in time, within memory, and the next call is answered at once."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from threading import Thread

from memreplay.mcp.querying import MOST_MEMORY
from tests.hostile_queries.client import Answered, Client
from tests.hostile_queries.queries import Query

MORE_SECONDS = 1.0  # beyond a query's time limit, and for the next call
MORE_BYTES = 100 << 20  # beyond a query's memory limit
_NO_ANSWER_SECONDS = 10.0
STUCK = "select count(*) from range(1000000000000)"
CALLS = (
    ("peak", {"file": "small.pkl"}),
    ("sql", {"file": "small.pkl", "query": "select file, sum(bytes) from flat group by all"}),
)
_LIMIT = re.compile(
    r"the query (?:took longer|needs more|used more|was killed|crashed DuckDB).*; \w+"
)


class Judge:
    """A session that gets one query after another."""

    def __init__(self, folder: str, seconds: float, *, more_seconds: float = MORE_SECONDS) -> None:
        self._seconds = seconds
        self.more_seconds = more_seconds
        self._client = Client(folder, seconds)
        self.faults = 0
        self._slowest = self._next = 0.0
        self._most = 0
        self._ends: Counter[str] = Counter()
        self._ask("select 1 as x")
        self._idle = self._client.memory()

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__(None, None, None)

    def faults_of(self, query: Query) -> Iterator[str]:
        """Run a query, and yield what is wrong."""
        for fault in self._judged(query):
            self.faults += 1
            yield fault

    def _judged(self, query: Query) -> Iterator[str]:
        found = self._ask(query.sql)
        if found.text is None:
            yield f"no answer after {found.seconds:.1f} s"
            return
        self._slowest = max(self._slowest, found.seconds)
        if found.seconds > self._seconds + self.more_seconds:
            yield f"took {found.seconds:.1f} s"
        grown = found.bytes - self._idle
        self._most = max(self._most, grown)
        if grown > MOST_MEMORY + MORE_BYTES:
            yield f"took {grown >> 20:,} MiB"
        if "\n" in found.text and found.is_error:
            yield f"an error of several lines: {found.text!r}"
        if "internal error" in found.text:
            yield found.text[:300]
        limit = _LIMIT.search(found.text)
        end = "rows" if not found.is_error else " ".join(limit[0].split()[:4]) if limit else "error"
        self._ends[end] += 1
        if limit:
            after = self._ask("select 1 as x")
            self._next = max(self._next, after.seconds)
            if after.text != "1 row\nx\n1":
                yield f"the next call says {after.text!r}"
            if after.seconds > self.more_seconds:
                yield f"the next call took {after.seconds:.1f} s"

    def _ask(self, query: str) -> Answered:
        most = self._seconds + max(_NO_ANSWER_SECONDS, self.more_seconds)
        return self._client.call("sql", {"file": "small.pkl", "query": query}, most)

    def summary(self) -> str:
        """Return the worst figures."""
        ends = ", ".join(f"{count:,} {end}" for end, count in self._ends.most_common())
        return (
            f"{self.faults} faults; slowest answer {self._slowest:.2f} s (limit"
            f" {self._seconds:g} s), slowest next call {self._next:.2f} s, most memory"
            f" {self._most >> 20:,} MiB above {self._idle >> 20:,} MiB at rest; {ends}"
        )


def two_clients(folder: str, n: int) -> list[tuple[float, float]]:
    """Return each call's median seconds over n calls: without other clients, and while a query of
    another client with its own server is stuck.
    """
    with Client(folder, 60.0) as hostile, Client(folder, 60.0) as other:
        _medians(other, n)
        before = _medians(other, n)
        hostile.call("sql", {"file": "small.pkl", "query": "select 1"}, 60)
        given = {"file": "small.pkl", "query": STUCK}
        thread = Thread(target=lambda: hostile.call("sql", given, 100))
        thread.start()
        time.sleep(1)
        beside = _medians(other, n)
        assert thread.is_alive(), "the stuck query ended too early"
        hostile.end()
        thread.join()
    return list(zip(before, beside, strict=True))


def _medians(client: Client, n: int) -> list[float]:
    found = []
    for tool, given in CALLS:
        answers = [client.call(tool, given, 60) for _ in range(n)]
        assert not any(one.is_error or one.text is None for one in answers)
        found.append(sorted(one.seconds for one in answers)[n // 2])
    return found
