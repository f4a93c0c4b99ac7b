"""Measure the CPU time of reading snapshots, in pairs with another checkout.

    python bench/reading.py snap.pkl
    python bench/reading.py snap.pkl --against ../before

Each round starts one process per checkout and file, which opens the file several times. The figures
are minima, because other programs can only add time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
TIMES = 10
PROGRAM = """
import json, sys, time
import memreplay as mr
both, parsing = [], []
for _ in range(int(sys.argv[2])):
    both.append(-time.process_time())
    parsing.append(-time.thread_time())
    events = len(mr.open(sys.argv[1]).events)
    both[-1] += time.process_time()
    parsing[-1] += time.thread_time()
print(json.dumps([events, min(both), min(parsing)]))
"""


def read(checkout: Path, file: Path) -> list[float]:
    """Return the number of events, and CPU seconds: both threads, and the one that parses."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file), str(TIMES)],
        env=os.environ | {"PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[float] = json.loads(done.stdout)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--against", type=Path, help="another checkout, with its engine built")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(arguments)
    checkouts = {"before": args.against} if args.against else {}
    checkouts["now"] = HERE
    for file in args.files:
        megabytes = file.stat().st_size / 1e6
        found: dict[str, list[list[float]]] = {name: [] for name in checkouts}
        for _ in range(args.rounds):
            for name, checkout in checkouts.items():
                found[name].append(read(checkout, file))
        for name, rounds in found.items():
            events, both, parsing = map(min, zip(*rounds, strict=True))
            print(
                f"{file.name}, {name}: {megabytes:.1f} MB, {events:,.0f} events;"
                f" {both * 1e3:.1f} ms of CPU time, {megabytes / both:,.0f} MB per CPU second;"
                f" the parsing thread {parsing * 1e3:.1f} ms,"
                f" {parsing * 1e9 / events:.0f} ns per event"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
