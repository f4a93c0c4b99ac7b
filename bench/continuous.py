"""Measure what continuous recording costs a program whose steps are limited by the processor.

    memreplay dryrun -- python bench/continuous.py [--program gpt|small] [--turns 20] [--seconds 2]

Each round runs turns without any recording, with `memreplay.record` and with a continuous
recording, in varying order. It prints the median processor time of a step, what an edge and a file
take, and the process's largest memory. This needs torch and memreplay.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import memreplay
from memreplay.recording.ring import ENTRIES

KINDS = "nothing", "record", "continuous"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=("gpt", "small"), default="gpt")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn, at least")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--stacks", default="auto")
    parser.add_argument("--context", default="alloc", help="PyTorch's: all, alloc or state")
    parser.add_argument("--entries", type=int, default=ENTRIES)
    asked = parser.parse_args()
    step = training(asked.layers) if asked.program == "gpt" else small()
    for _ in range(5):
        step()
    made = torch.cuda.memory_stats()["allocation.all.allocated"]
    step()
    made = torch.cuda.memory_stats()["allocation.all.allocated"] - made
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    edges: list[float] = []
    files: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(asked.turns + 1):
            for i in range(len(KINDS)):  # rotate the order for fairness
                kind = KINDS[(i + turn) % len(KINDS)]
                taken = turn_of(kind, step, asked, Path(folder) / "snapshot.pickle")
                if turn:  # the first round is another warm-up
                    times[kind].append(taken[0])
                    edges += taken[1:2]
                    files += taken[2:]
    median = {kind: statistics.median(taken) for kind, taken in times.items()}
    more = [c / r for c, r in zip(times["continuous"], times["record"], strict=True)]
    found = {
        "torch": str(torch.__version__),
        **vars(asked),
        "allocations_a_step": made,
        "milliseconds": {kind: 1e3 * value for kind, value in median.items()},
        "least": {kind: 1e3 * min(taken) for kind, taken in times.items()},
        "continuous_to_record": statistics.median(more),
        "edge_milliseconds": 1e3 * statistics.median(edges),
        "file_milliseconds": 1e3 * statistics.median(files),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found, indent=1))
    return 0


def turn_of(
    kind: str, step: Callable[[], None], asked: argparse.Namespace, path: Path
) -> list[float]:
    """Return the processor seconds of a step; for a continuous recording also those of an edge and
    of a file.
    """
    options: dict[str, Any] = {
        "stacks": asked.stacks,
        "context": asked.context,
        "max_entries": asked.entries,
        "overwrite": True,
        "quiet": True,
    }
    if kind == "continuous":
        options["continuous"] = {"seconds": 1e9, "peak_percent": 2}
    recorder = None if kind == "nothing" else memreplay.record(path, **options).start()
    for _ in range(3):
        step()
    began, until, steps = time.process_time(), time.monotonic() + asked.seconds, 0
    while time.monotonic() < until:
        step()
        steps += 1
    found = [(time.process_time() - began) / steps]
    if kind == "continuous":
        assert recorder is not None
        rotation = recorder._session.rotation
        assert rotation is not None
        for work in (rotation.ring.take, rotation.rotate):
            began = time.process_time()
            work()
            found.append(time.process_time() - began)
    if recorder is not None:
        recorder._session.stop()
    return found


def training(layers: int) -> Callable[[], None]:
    """Return a function that runs one step of a small GPT with AdamW."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    gpt = importlib.import_module("train_gpt")

    model = gpt.Gpt(layers, 768, 12, 1024, 50257).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(50257, (2, 1024), device="cuda")

    def step() -> None:
        logits = model(tokens)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def small() -> Callable[[], None]:
    """Return a function that runs many small operations."""
    x = torch.ones(64, 64, device="cuda")

    def step() -> None:
        y = x
        for _ in range(300):
            y = y * x + x

    return step


if __name__ == "__main__":
    sys.exit(main())
