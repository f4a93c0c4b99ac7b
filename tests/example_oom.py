"""Create tests/data/serving_oom.pkl.gz: a simulated text generation server that runs out of memory.

    python -m tests.example_oom -o tests/data/serving_oom.pkl.gz

Each sequence's key-value cache grows by `torch.cat`, which allocates a longer tensor and frees the
shorter one. Caches of many lengths share segments and keep them from being returned. In the end the
attention scores of a long prompt don't fit, twice.
"""

from __future__ import annotations

import argparse
import gzip
import io
import random
from pathlib import Path

from tests.allocator import Device, Machine
from tests.allocator_blocks import MIB, Block, Settings, Stack
from tests.build import Snapshot, dump

CAPACITY = 848 * MIB
LAYERS = 12
TOKEN = 48 * 1024  # bytes per token in a layer's cache
SCORES = 192 * MIB
SERVER = "/srv/chat/server.py"
MODEL = "/srv/chat/model.py"
CALLERS: Stack = (("generate", SERVER, 88), ("serve", SERVER, 131), ("<module>", SERVER, 160))
LOAD: Stack = (
    ("aten::empty_strided", "??", 0),
    ("load_weights", MODEL, 31),
    ("<module>", SERVER, 20),
)
GROW: Stack = (("aten::cat", "??", 0), ("append", "/srv/chat/cache.py", 27), *CALLERS)
HIDDEN: Stack = (("aten::addmm", "??", 0), ("mlp", MODEL, 64), *CALLERS)
ASK: Stack = (("aten::_softmax", "??", 0), ("attention", MODEL, 52), ("prefill", SERVER, 97))


class Sequence:
    """A conversation, whose cache has one tensor per layer."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.cache: list[Block | None] = [None] * LAYERS


def taken(block: Block | None) -> Block:
    assert block is not None, "the server ran out of memory too early"
    return block


def step(device: Device, sequence: Sequence, tokens: int) -> None:
    """Generate a few more tokens for one sequence."""
    sequence.tokens += tokens
    for layer, old in enumerate(sequence.cache):
        hidden = taken(device.malloc(tokens * 16 * 1024, stack=HIDDEN))
        sequence.cache[layer] = taken(device.malloc(sequence.tokens * TOKEN, stack=GROW))
        if old is not None:
            device.free(old)
        device.free(hidden)


def serve(device: Device, rng: random.Random) -> None:
    """Start, grow and end sequences until a long prompt fails, twice."""
    device.now_us = 1_768_990_500_000_000
    for size in [12 * MIB, 4 * MIB, 9 * MIB] * LAYERS:
        taken(device.malloc(size, stack=LOAD))
    running: list[Sequence] = []
    for _ in range(44):
        if len(running) < 9:
            running.append(Sequence(rng.randint(24, 60)))
            step(device, running[-1], rng.randint(1, 8))
        sequence = rng.choice(running)
        step(device, sequence, rng.randint(2, 9))
        if sequence.tokens > 110:
            running.remove(sequence)
            for block in sequence.cache:
                device.free(taken(block))
        device.now_us += rng.randint(8_000, 30_000)
    for _ in range(3):
        sequence = running.pop(rng.randrange(len(running)))
        for block in sequence.cache:
            device.free(taken(block))
    for wanted in (SCORES, SCORES * 3 // 4):
        assert device.malloc(wanted, stack=(*ASK, *CALLERS[1:])) is None
        device.now_us += 400_000


def snapshot() -> Snapshot:
    machine = Machine(Settings(capacity=CAPACITY))
    machine.begin_recording()
    serve(machine.devices[0], random.Random(6))
    return machine.dump()[0]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", type=Path, required=True)
    output = parser.parse_args(arguments).output
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=9, filename="") as file:
        file.write(dump(snapshot()))
    output.write_bytes(packed.getvalue())


if __name__ == "__main__":
    main()
