"""Record a small training program on a CUDA GPU, with PyTorch's own memory statistics.

    python bench/record_cuda.py OUT                 each recording, in a separate process
    python bench/record_cuda.py OUT --only cpp      only this one
    python bench/record_cuda.py OUT --only large    one of 400,000 events, only made on request

This needs torch, but not memreplay. The program trains linear layers with Adam, some of them with
activation checkpointing; copies on a second stream with record_stream; captures a CUDA graph, with
its private pool; allocates in a separate pool; compiles a function, in one recording; and catches a
failed request. For each NAME.pickle.gz, NAME.json has the card, the settings, and
torch.cuda.memory_stats() before the recording and at its end, with the recording's peaks.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple


class Recording(NamedTuple):
    """One recording of the program."""

    settings: str = ""
    stacks: str = "python"
    warm_steps: int = 0
    """Number of steps before the recording begins."""
    steps: int = 4
    layers: int = 4
    compiled: bool = False
    """Whether torch.compile is tried: Triton's allocations depend on the machine."""


RECORDINGS = {
    "default": Recording(),
    "expandable": Recording(settings="expandable_segments:True"),
    "late": Recording(warm_steps=2, steps=3),
    "cpp": Recording(stacks="all", steps=2, layers=2),
    "compiled": Recording(steps=2, layers=2, compiled=True),
    "large": Recording(steps=500, layers=40),
}
ON_DEMAND = {"large"}
WIDTH, ROWS = 512, 96


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder")
    parser.add_argument("--only", choices=RECORDINGS, help="only this recording")
    parser.add_argument("--one", choices=RECORDINGS, help="this one, in this process")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.one:
        record(asked.one, RECORDINGS[asked.one], asked.out)
        return 0
    failed = 0
    for name in [asked.only] if asked.only else [n for n in RECORDINGS if n not in ON_DEMAND]:
        environment = dict(os.environ)
        for variable in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
            environment.pop(variable, None)
            if RECORDINGS[name].settings:  # PyTorch also reads the variable's old name
                environment[variable] = RECORDINGS[name].settings
        command = [sys.executable, __file__, str(asked.out), "--one", name]
        failed |= subprocess.run(command, env=environment, check=False).returncode
    return int(failed != 0)


def record(name: str, asked: Recording, out: Path) -> None:
    """Run the program once, and write both files."""
    import torch

    torch.cuda.init()
    torch.zeros(())  # loading a tensor on the CPU takes no memory on the card
    free, total = torch.cuda.mem_get_info()
    properties = torch.cuda.get_device_properties(0)
    program = Program(asked)
    program.train(asked.warm_steps)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    torch.cuda.memory._record_memory_history(max_entries=sys.maxsize, stacks=asked.stacks)
    program.train(asked.steps)
    if not asked.warm_steps:
        program.graph()
        program.pool()
    compiled = program.compiled() if asked.compiled else None
    oom = program.oom()
    program.train(1)
    torch.cuda.synchronize()
    # Nothing is allocated between these two calls.
    end = torch.cuda.memory_stats()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(None)
    anonymous(snapshot, os.path.dirname(os.path.dirname(torch.__file__)))
    packed = out / f"{name}.pickle.gz"
    with gzip.GzipFile(packed, "wb", compresslevel=9, mtime=0) as file:
        pickle.dump(snapshot, file)
    found = {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "card": properties.name,
        "properties": {
            one: getattr(properties, one)
            for one in sorted(dir(properties))
            if isinstance(getattr(properties, one), int) and not one.startswith("_")
        },
        "total_bytes": total,
        "taken_before_bytes": total - free,  # used by the context and other processes
        "settings": asked.settings,
        "stacks": asked.stacks,
        "warm_steps": asked.warm_steps,
        "compiled": compiled,
        "oom": oom,
        "before": before,
        "end": end,
    }
    text = json.dumps(found, indent=1) + "\n"
    (out / f"{name}.json").write_text(text, encoding="utf-8")
    peak = end["requested_bytes.all.peak"]
    print(f"{name}: {packed.stat().st_size:,} bytes, a peak of {peak:,} requested")


def anonymous(snapshot: Any, libraries: str) -> None:
    """Remove this machine's paths, which are private."""
    folders = {
        os.path.join(os.path.dirname(os.path.abspath(__file__)), ""): "/home/ana/cuda/",
        os.path.join(libraries, ""): "/usr/lib/python3/site-packages/",
        os.path.join(os.path.dirname(os.__file__), ""): "/usr/lib/python3/",
        os.path.join(tempfile.gettempdir(), ""): "/tmp/",
    }
    seen = set()
    segments = snapshot["segments"]
    blocks = [block for segment in segments for block in segment["blocks"]]
    for holder in itertools.chain(*snapshot["device_traces"], segments, blocks):
        for frame in holder.get("frames", ()):
            if id(frame) in seen:  # PyTorch shares equal frames
                continue
            seen.add(id(frame))
            for folder, named in folders.items():
                if frame["filename"].startswith(folder):
                    frame["filename"] = named + frame["filename"][len(folder) :]
                    break


class Program:
    """The program to record."""

    def __init__(self, asked: Recording) -> None:
        import torch
        from torch import nn

        self.torch: Any = torch
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(asked.layers)).cuda()
        self.optimizer = torch.optim.Adam(self.layers.parameters())
        self.side = torch.cuda.Stream()
        self.step = 0
        self.kept: list[Any] = []

    def train(self, steps: int) -> None:
        """Train, with a batch that is copied on the second stream."""
        from torch.profiler import record_function
        from torch.utils.checkpoint import checkpoint

        torch = self.torch
        for _ in range(steps):
            self.step += 1
            self.name(f"step {self.step}")
            with record_function("load"), torch.cuda.stream(self.side):
                x = torch.randn(ROWS, WIDTH).to("cuda", non_blocking=True)
            torch.cuda.current_stream().wait_stream(self.side)
            x.record_stream(torch.cuda.current_stream())
            with record_function("forward"):
                y = x
                for i, layer in enumerate(self.layers):
                    y = checkpoint(layer, y, use_reentrant=False) if i % 2 else layer(y)
                    y = torch.nn.functional.gelu(y)
                loss = y.square().mean()
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                self.optimizer.step()
                self.optimizer.zero_grad()

    def name(self, text: str) -> None:
        """Name the following allocations, if this PyTorch can."""
        said = getattr(self.torch._C, "_cuda_setMemoryMetadata", None)
        if said is not None:
            said(text)

    def graph(self) -> None:
        """Capture the layers without gradients; the private pool stays."""
        torch = self.torch
        self.name("graph")
        x = torch.zeros(32, WIDTH, device="cuda")

        def forward() -> Any:
            y = x
            for layer in self.layers:
                y = layer(y)
            return y

        with torch.no_grad():
            with torch.cuda.stream(self.side):
                forward()
            torch.cuda.current_stream().wait_stream(self.side)
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                y = forward()
            captured.replay()
        self.kept += [x, y, captured]

    def pool(self) -> None:
        """Allocate in the program's own pool, and free some of it."""
        torch = self.torch
        self.name("pool")
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            tensors = [torch.empty(100_000 * (i + 1), device="cuda") for i in range(12)]
        self.kept += [pool, *tensors[::3]]

    def compiled(self) -> bool:
        """Return whether torch.compile works here; if so, run the compiled function three times."""
        torch = self.torch
        self.name("compiled")

        def function(x: Any, y: Any) -> Any:
            return torch.nn.functional.softmax(x @ y, dim=-1) + x.sum() * 2

        compiled = torch.compile(function)
        try:
            for _ in range(3):
                x = torch.ones(256, 256, device="cuda", requires_grad=True)
                compiled(x, x).sum().backward()
        except Exception as error:
            print(f"torch.compile: {type(error).__name__}", file=sys.stderr)
            return False
        return True

    def oom(self) -> str:
        """Return PyTorch's error for a request that no GPU can serve."""
        self.name("too much")
        try:
            self.torch.empty(1 << 42, dtype=self.torch.uint8, device="cuda")
        except self.torch.OutOfMemoryError as error:
            return str(error)
        raise AssertionError("it has 4 TiB")


if __name__ == "__main__":
    sys.exit(main())
