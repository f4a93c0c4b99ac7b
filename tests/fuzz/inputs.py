"""Generate input number i for a seed: its kind and its bytes."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate

from tests.fuzz import datasets, packed, pickles, plain, raw
from tests.fuzz.seeds import Seeds

MOST = 256 << 10  # size limit for inputs made from small seeds, in bytes


class Inputs:
    """Generate a seed's inputs, which are the same in any order."""

    def __init__(self, seeds: Seeds, seed: int) -> None:
        self.seeds = seeds
        self.seed = seed

    def __call__(self, number: int) -> tuple[str, bytes]:
        rng = random.Random(self.seed << 64 | number)
        kind = KINDS[bisect(SHARES, rng.random() * SHARES[-1])]
        data = MAKERS[kind][1](self, rng)
        return kind, data if kind == "large" else data[:MOST]

    def small(self, rng: random.Random, *, pickles_only: bool = False) -> bytes:
        """Return a small seed, usually a readable one, because reading broken seeds stops early."""
        dice = rng.random()
        if dice < 0.1:
            return rng.choice(self.seeds.broken)
        return rng.choice(
            self.seeds.texts if dice < 0.25 and not pickles_only else self.seeds.pickles
        )

    def bytes_changed(self, rng: random.Random) -> bytes:
        return raw.mutated(rng, self.small(rng), rng.choice((1, 1, 1, 2, 4, 16)))

    def spliced(self, rng: random.Random) -> bytes:
        return raw.splice(rng, self.small(rng, pickles_only=True), self.small(rng))

    def cut(self, rng: random.Random) -> bytes:
        return raw.cut(rng, self.small(rng))

    def opcodes(self, rng: random.Random) -> bytes:
        one, other = (self.small(rng, pickles_only=True) for _ in range(2))
        return pickles.opcodes_changed(rng, one, other)

    def stream(self, rng: random.Random) -> bytes:
        return pickles.stream(rng)

    def written(self, rng: random.Random) -> bytes:
        return pickles.written(rng)

    def changed(self, rng: random.Random) -> bytes:
        return plain.changed(rng, rng.choice(self.seeds.plain))

    def replaced(self, rng: random.Random) -> bytes:
        return plain.replaced(rng, rng.choice(self.seeds.plain))

    def tokens(self, rng: random.Random) -> bytes:
        found = self.seeds.texts
        return plain.tokens_changed(rng, rng.choice(found), rng.choice(found))

    def changed_and_cut(self, rng: random.Random) -> bytes:
        data = self.changed(rng)
        return rng.choice((raw.cut, *raw.SIMPLE))(rng, data)

    def of_mutated(self, rng: random.Random) -> bytes:
        make = rng.choice((Inputs.bytes_changed, Inputs.opcodes, Inputs.changed, Inputs.tokens))
        return packed.of_mutated(rng, make(self, rng))

    def container(self, rng: random.Random) -> bytes:
        return packed.mutated(rng, self.small(rng), self.small(rng))

    def dataset(self, rng: random.Random) -> bytes:
        one, other = rng.choice(self.seeds.datasets), rng.choice(self.seeds.datasets)
        return datasets.mutated(rng, one, other)

    def large(self, rng: random.Random) -> bytes:
        data = rng.choice(self.seeds.large)
        data = raw.mutated(rng, data, rng.choice((1, 1, 2, 8)))
        return packed.of_mutated(rng, data) if rng.random() < 0.1 else data


# Each kind's share of the inputs. A large input takes as long as thousands of small inputs.
MAKERS: dict[str, tuple[float, Callable[[Inputs, random.Random], bytes]]] = {
    "bytes changed": (18, Inputs.bytes_changed),
    "spliced": (6, Inputs.spliced),
    "cut off": (6, Inputs.cut),
    "opcodes changed": (22, Inputs.opcodes),
    "random opcodes": (6, Inputs.stream),
    "written by opcode": (12, Inputs.written),
    "content changed": (14, Inputs.changed),
    "values replaced": (14, Inputs.replaced),
    "content, then bytes": (4, Inputs.changed_and_cut),
    "JSON tokens": (8, Inputs.tokens),
    "packed": (2, Inputs.of_mutated),
    "container changed": (2, Inputs.container),
    "dataset": (4, Inputs.dataset),
    "large": (0.03, Inputs.large),
}
KINDS = list(MAKERS)
SHARES = list(accumulate(share for share, _ in MAKERS.values()))
