"""Measure each executor's overhead per item.

python bench/fleet.py --items 2000 --workers 2
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence

from memreplay.workers.cluster import DaskCluster
from memreplay.workers.pool import LocalPool
from memreplay.workers.running import Executor

GOAL_MS = {"pool": 3.0, "dask": 15.0}


def overhead_ms(executor: Executor, count: int) -> float:
    """Return milliseconds per empty item."""
    assert {one.status for one in executor.run(math.sqrt, range(2))} == {"ok"}  # starts a worker
    began = time.perf_counter()
    results = {one.result for one in executor.run(math.sqrt, range(count))}
    assert len(results) == count
    return (time.perf_counter() - began) / count * 1e3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args(arguments)
    made: dict[str, Callable[[], Executor]] = {
        "pool": lambda: LocalPool(asked.workers),
        "dask": lambda: DaskCluster.local(asked.workers),
    }
    slow = 0
    for name, make in made.items():
        began = time.perf_counter()
        executor = make()
        next(iter(executor.run(math.sqrt, [1])))
        first = time.perf_counter() - began
        each = overhead_ms(executor, asked.items)
        executor.close()
        slow += each > GOAL_MS[name]
        print(
            f"{name}: first result after {first:.2f} s, then {each:.2f} ms an item"
            f" (goal: {GOAL_MS[name]:g} ms), {asked.items:,} items on {asked.workers} workers"
        )
    return int(slow > 0)


if __name__ == "__main__":
    raise SystemExit(main())
