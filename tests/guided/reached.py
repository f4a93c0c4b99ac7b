"""Run both fuzzers' inputs in one process that exits normally, so that gcov writes its counts."""

from __future__ import annotations

import argparse
import random
import sys

import memreplay as mr
from tests.conftest import corpus_files
from tests.fuzz.__main__ import checked
from tests.fuzz.check import analyse, attempt, can_be_replayed
from tests.fuzz.commands import ask
from tests.fuzz.inputs import Inputs
from tests.fuzz.programs import EXAMPLES, examples
from tests.fuzz.seeds import SMALL, seeds
from tests.fuzz.writers import written
from tests.guided import corpus
from tests.guided.targets import TARGETS


def asked_all(data: bytes, rounds: int, seed: int) -> None:
    """Run all queries and all writers, with different arguments each round."""
    rng = random.Random(seed)
    snap = attempt(data)
    if isinstance(snap, mr.SnapshotError) or not can_be_replayed(snap, data):
        return
    for _ in range(rounds):
        analyse(snap, rng.getrandbits(30))
        ask(snap, rng.getrandbits(30))
        written(data, snap, rng.getrandbits(30))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guided.reached", description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, help="of make fuzz's (20,000)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for target, judge in TARGETS.items():
        inputs = corpus.kept(target)
        for data in inputs:
            judge(data)
        print(f"{target}: {len(inputs):,} inputs that are kept", flush=True)
    known = seeds(corpus_files())
    for number, data in enumerate([*known.pickles, *known.texts, *known.large, *examples()]):
        asked_all(data, 5 if len(data) <= SMALL else 3, number)
    for path in EXAMPLES:
        attempt(str(path))  # so that files are read ahead in another thread
    print("the inputs that both begin with, each asked everything")
    make = Inputs(known, options.seed)
    for number in range(options.inputs):
        checked(make(number)[1])
    print(f"{options.inputs:,} inputs of make fuzz")
    return 0


if __name__ == "__main__":
    sys.exit(main())
