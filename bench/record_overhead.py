"""Measure how much recording slows down a training step on a CUDA GPU: PyTorch's own recording, and
memreplay's.

    python bench/record_overhead.py [--turns 30] [--steps 10] [--layers 12] [--width 768]

One process runs steps without any recording, with PyTorch's `_record_memory_history`, and with
`memreplay.record`, in turns. It prints the median wall time and CPU time of a step. Each round ends
only once the GPU is idle. Small steps are limited by the CPU, and show the CPU cost of a recording;
large ones are limited by the GPU. This needs torch, memreplay and a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import memreplay
from memreplay.recording.facts import history_context

KINDS = ("nothing", "history", "history, all", "memreplay", "memreplay, all")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--steps", type=int, default=10, help="of each turn")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=128)
    asked = parser.parse_args()
    step = training(asked)
    for _ in range(5):
        step()
    made = torch.cuda.memory_stats()["allocation.all.allocated"]
    step()
    made = torch.cuda.memory_stats()["allocation.all.allocated"] - made
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(asked.turns + 1):
            for i in range(len(KINDS)):  # rotate the order for fairness
                kind = KINDS[(i + turn) % len(KINDS)]
                taken = turn_of(kind, step, asked.steps, Path(folder) / "snapshot.pickle")
                if turn:  # the first round is another warm-up
                    times[kind].append(taken)
    found = {
        "torch": str(torch.__version__),
        "card": torch.cuda.get_device_name(),
        **vars(asked),
        "context": history_context(torch.__version__),
        "allocations_a_step": made,
        "milliseconds": {
            kind: {
                "wall": statistics.median(wall for wall, _ in taken),
                "processor": statistics.median(processor for _, processor in taken),
                "least": min(wall for wall, _ in taken),
            }
            for kind, taken in times.items()
        },
    }
    print(json.dumps(found, indent=1))
    return 0


def training(asked: argparse.Namespace) -> Any:
    """Return a function that runs one step of a transformer under bf16 autocast with AdamW."""
    layer = torch.nn.TransformerEncoderLayer(
        asked.width, asked.width // 64, 4 * asked.width, batch_first=True, dropout=0.0
    )
    model = torch.nn.TransformerEncoder(layer, asked.layers, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    x = torch.randn(asked.rows, asked.length, asked.width, device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def turn_of(kind: str, step: Any, steps: int, path: Path) -> tuple[float, float]:
    """Return milliseconds per step: wall time and CPU time."""
    stacks: Any = "all" if kind.endswith("all") else "python"
    recording: Any = contextlib.nullcontext()
    if kind.startswith("memreplay"):
        recording = memreplay.record(path, stacks=stacks, overwrite=True, quiet=True)
    elif kind != "nothing":
        # Start PyTorch's recording the way memreplay does.
        torch.cuda.memory._record_memory_history(
            context=history_context(torch.__version__),
            stacks=stacks,
            max_entries=sys.maxsize,
            clear_history=True,
        )
    with recording:
        step()
        torch.cuda.synchronize()
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        taken = time.perf_counter() - wall, time.process_time() - processor
    torch.cuda.memory._record_memory_history(None)
    return taken[0] / steps * 1000, taken[1] / steps * 1000


if __name__ == "__main__":
    sys.exit(main())
