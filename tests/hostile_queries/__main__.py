"""Run all hostile queries against a server, and say which ones broke a limit."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

from tests.hostile_queries.judging import Judge, two_clients
from tests.hostile_queries.queries import LISTED, known, of_functions
from tests.unit.mcp.conftest import snapshot

_ROUNDING_SECONDS = 0.05  # calls of 2 ms vary


def main() -> int:
    """Return 1 if a query broke a limit."""
    import duckdb

    parser = argparse.ArgumentParser(prog="python -m tests.hostile_queries", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="each query's time limit")
    parser.add_argument("--only", default="", help="only queries whose name has this expression")
    given = parser.parse_args()
    listed = duckdb.connect().execute(LISTED).fetchall()
    queries = [one for one in (*known(), *of_functions(listed)) if re.search(given.only, one.name)]
    print(f"{len(queries):,} queries", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "small.pkl").write_bytes(snapshot(100))
        with Judge(folder, given.seconds) as judge:
            for i, query in enumerate(queries):
                for fault in judge.faults_of(query):
                    print(f"{query.name}: {fault}", flush=True)
                if i % 100 == 99:
                    print(f"… {i + 1:,} in {time.monotonic() - started:.0f} s", flush=True)
            print(judge.summary())
        slow = 0
        for before, beside in two_clients(folder, 15):
            print(f"another client's call: {before * 1e3:.0f} ms, {beside * 1e3:.0f} ms beside it")
            slow += beside > 2 * before + _ROUNDING_SECONDS
    return 1 if judge.faults or slow else 0


if __name__ == "__main__":
    sys.exit(main())
