"""Judge a query: it ends in time, within memory, and the next call is answered at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from memreplay.mcp.querying import MOST_MEMORY
from tests.hostile_queries.client import Answered, Client
from tests.hostile_queries.queries import Query

MORE_SECONDS = 1.0  # beyond a query's time limit, and for the next call
MORE_BYTES = 100 << 20  # beyond a query's memory limit
_NO_ANSWER_SECONDS = 10.0
_LIMIT = re.compile(
    r"the query (?:took longer|needs more|used more|was killed|crashed DuckDB).*; \w+"
)


class Judge:
    """A session that gets one query after another."""

    def __init__(self, folder: str, seconds: float) -> None:
        self._seconds = seconds
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
        if found.seconds > self._seconds + MORE_SECONDS:
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
            if after.seconds > MORE_SECONDS:
                yield f"the next call took {after.seconds:.1f} s"

    def _ask(self, query: str) -> Answered:
        most = self._seconds + _NO_ANSWER_SECONDS
        return self._client.call("sql", {"file": "small.pkl", "query": query}, most)

    def summary(self) -> str:
        """Return the worst figures."""
        ends = ", ".join(f"{count:,} {end}" for end, count in self._ends.most_common())
        return (
            f"{self.faults} faults; slowest answer {self._slowest:.2f} s (limit"
            f" {self._seconds:g} s), slowest next call {self._next:.2f} s, most memory"
            f" {self._most >> 20:,} MiB above {self._idle >> 20:,} MiB at rest; {ends}"
        )
