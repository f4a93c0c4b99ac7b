"""Snapshots of programs: seeds that exercise the analyses, not just the reader."""

from __future__ import annotations

import gzip
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import oracle
from tests.allocator_strategies import SETTINGS, record
from tests.build import FrameSpec, SnapshotBuilder

ROOT = Path(__file__).parents[2]
BENCH = str(ROOT / "bench")
# Real programs in the repository.
EXAMPLES = sorted(ROOT.glob("examples/*.pkl.gz"))
TORCH = "/v/lib/python3.12/site-packages/torch"
LINEAR = ("forward", f"{TORCH}/nn/modules/linear.py", 134)
# Autocast's stacks as PyTorch records them, innermost first, and the tensors that it might be
# casting.
CASTING: tuple[list[FrameSpec], ...] = (
    [("at::native::empty", "??", 0), ("cuda", f"{TORCH}/nn/modules/module.py", 1050)],
    [("at::native::add", "??", 0), LINEAR, ("main", "/home/a/train.py", 9)],
    [("make", "/home/a/train.py", 5)],
    [("torch::autograd::generated::MmBackward0::apply(int)", "??", 0)],
    [
        ("at::autocast::cached_cast(c10::ScalarType, at::Tensor const&)", "??", 0),
        ("at::_ops::linear::call(at::Tensor const&, at::Tensor const&)", "??", 0),
        LINEAR,
    ],
    [],
)
EXIT: list[FrameSpec] = [("__exit__", f"{TORCH}/amp/autocast_mode.py", 371)]


def programs() -> Iterator[Any]:
    """Return snapshots of small programs on PyTorch's allocator, or on a model of it."""
    for number, name in enumerate(SETTINGS):
        yield record(number, settings=name, steps=45, late=20 * (number % 3)).snapshot
    for number in range(3):
        yield casts(random.Random(number))
    if BENCH not in sys.path:  # pytest adds the repository to sys.path, other programs don't
        sys.path.append(BENCH)
    import leaky

    for marks in ("profiler", "optimizer", "none"):
        made = leaky.Options(steps=14, layers=1, annotations=marks, evaluate_every=5)
        yield oracle.load(leaky.snapshot_bytes(made))


def examples() -> Iterator[bytes]:
    """Return the examples' pickles."""
    for path in EXAMPLES:
        yield gzip.decompress(path.read_bytes())


def casts(rng: random.Random) -> Any:
    """Allocate weights and activations, and autocast's copies of them, which are freed when it
    exits.
    """
    made = SnapshotBuilder()
    live: dict[int, int] = {}
    for _ in range(40):
        address = 0x1000 * rng.randint(1, 12)
        if address in live:
            made.free(address, live.pop(address), frames=rng.choice((EXIT, CASTING[1])))
        else:
            live[address] = rng.choice((512, 1024, 2048))
            made.alloc(address, live[address], frames=rng.choice(CASTING))
    return made.build()
