"""Both fuzzers' inputs in one process that ends as it should, as gcov writes its counts then."""

from __future__ import annotations

import argparse
import sys

from tests.conftest import corpus_files
from tests.fuzz.__main__ import checked
from tests.fuzz.inputs import Inputs
from tests.fuzz.seeds import seeds
from tests.guided import corpus
from tests.guided.targets import TARGETS


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
    make = Inputs(seeds(corpus_files()), options.seed)
    for number in range(options.inputs):
        checked(make(number)[1])
    print(f"{options.inputs:,} inputs of make fuzz")
    return 0


if __name__ == "__main__":
    sys.exit(main())
