"""Write a small training run as a snapshot, with typical fluctuations, with or without a leak.

    python bench/leaky.py -o tests/data/leaky_training.pkl.gz --steps 40

A tiny model trains on batches of varying length. The first step creates the optimizer's state, the
gradients and a cuBLAS workspace. A cache fills during the first ten steps, every 50th step
evaluates, a buffer grows now and then, and reference cycles are collected a few steps late. With a
leak, every step appends one tensor to a list.
"""

from __future__ import annotations

import argparse
import gzip
import pickle
import random
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from sim_allocator import LIVE, Allocator, Block, Segment

KIB, MIB = 1 << 10, 1 << 20
START_US = 1_768_990_500_000_000
BASE = 0x7F20_0000_0000
TORCH = "/opt/conda/lib/python3.11/site-packages/torch"

Frame = dict[str, object]
Entry = dict[str, object]
ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free")


@dataclass(frozen=True)
class Options:
    """What to write. `annotations`: "profiler" (ProfilerStep#N), "optimizer" or "none"."""

    steps: int = 200
    leak_bytes: int = 64 * KIB
    leak_every: int = 1
    leak_from: int = 0
    annotations: str = "profiler"
    stacks: bool = True
    layers: int = 4
    width: int = 64
    evaluate_every: int = 50
    seed: int = 0


# The program's call sites: lists of frames, innermost first.
CALL = ("_call_impl", f"{TORCH}/nn/modules/module.py", 1784)
MAIN = (("main", "/home/ana/tiny/train.py", 96), ("<module>", "/home/ana/tiny/train.py", 104))
MODEL = "/home/ana/tiny/model.py"
TRAIN = "/home/ana/tiny/train.py"
IN_MODEL = (("forward", MODEL, 58), CALL, ("train_step", TRAIN, 41), *MAIN)
IN_EVAL = (("forward", MODEL, 58), CALL, ("evaluate", TRAIN, 72), ("main", TRAIN, 99), MAIN[1])
BACKWARD = (("torch::autograd::Engine::thread_main", "??", 0),)
ADAMW = (
    ("step", f"{TORCH}/optim/adamw.py", 220),
    ("wrapper", f"{TORCH}/optim/optimizer.py", 493),
    ("train_step", TRAIN, 48),
    *MAIN,
)
PLACES = {
    "batch": (("to_device", "/home/ana/tiny/data.py", 27), ("main", TRAIN, 93), MAIN[1]),
    "embed": (("forward", MODEL, 55), CALL, ("train_step", TRAIN, 41), *MAIN),
    "attention": (("forward", MODEL, 23), CALL, *IN_MODEL),
    "mask": (("forward", MODEL, 21), CALL, *IN_MODEL),
    "mlp": (("forward", MODEL, 36), CALL, *IN_MODEL),
    "eval attention": (("forward", MODEL, 23), CALL, *IN_EVAL),
    "eval mlp": (("forward", MODEL, 36), CALL, *IN_EVAL),
    "rotary": (("rotary", MODEL, 14), ("forward", MODEL, 20), CALL, *IN_MODEL),
    "workspace": (
        ("at::cuda::getCUDABlasLtWorkspace()", "??", 0),
        ("forward", MODEL, 23),
        CALL,
        *IN_MODEL,
    ),
    "loss": (
        ("cross_entropy", f"{TORCH}/nn/functional.py", 3462),
        ("train_step", TRAIN, 42),
        *MAIN,
    ),
    "loss.backward": (("backward", f"{TORCH}/_tensor.py", 647), ("train_step", TRAIN, 44), *MAIN),
    "mlp.backward": (("torch::autograd::generated::GeluBackward0::apply", "??", 0), *BACKWARD),
    "attention.backward": (
        ("torch::autograd::generated::AddmmBackward0::apply", "??", 0),
        *BACKWARD,
    ),
    "gradient": (("torch::autograd::AccumulateGrad::apply", "??", 0), *BACKWARD),
    "clip": (
        ("clip_grad_norm_", f"{TORCH}/nn/utils/clip_grad.py", 82),
        ("train_step", TRAIN, 46),
        *MAIN,
    ),
    "state": (("_init_group", f"{TORCH}/optim/adamw.py", 154), *ADAMW),
    "update": (("_single_tensor_adamw", f"{TORCH}/optim/adamw.py", 412), *ADAMW),
    "buffer": (("add", "/home/ana/tiny/data.py", 61), ("train_step", TRAIN, 50), *MAIN),
    "cycle": (("hook", MODEL, 80), ("train_step", TRAIN, 51), *MAIN),
    "recent": (("log", TRAIN, 63), ("train_step", TRAIN, 53), *MAIN),
    "leak": (("train_step", TRAIN, 54), *MAIN),
    "parameters": (("build", MODEL, 70), ("main", TRAIN, 88), MAIN[1]),
}

NAMES = list(PLACES)


class Recorder:
    """The allocator's events in PyTorch's format."""

    def __init__(self, options: Options, rng: random.Random) -> None:
        self.options = options
        self.rng = rng
        self.now = START_US
        self.events: list[Entry] = []
        self.annotations: list[Entry] = []
        self.allocator = Allocator(self, BASE)
        self._frames: dict[tuple[str, str, int], Frame] = {}

    def alloc(self, place: str, size: int) -> Block:
        """Allocate a block."""
        return self.allocator.malloc(size, 0, NAMES.index(place))

    def free(self, block: Block) -> None:
        """Free a block at once."""
        self.allocator.free(block, block.stack)

    def annotate(self, name: str, stage: str) -> None:
        """Add an entry of external_annotations, between two events."""
        self.now += 2
        entry: Entry = {"name": name, "stage": stage, "device": 0, "time_us": self.now}
        self.annotations.append(entry)
        self.now += 2

    def new_context(self) -> int:
        """Advance the clock by one call."""
        self.now += 1 + int(self.rng.expovariate(1 / 1200))
        return 0

    def record(
        self, action: int, address: int, size: int, stream: int, stack: int, context: int
    ) -> None:
        """Record one event."""
        del context
        event: Entry = {"action": ACTIONS[action], "addr": address, "size": size, "stream": stream}
        event["time_us"] = self.now
        if self.options.stacks:
            event["frames"] = self._stack(stack)
        self.events.append(event)

    def _stack(self, place: int) -> list[Frame]:
        """Return the frames of a call site: shared dicts, as PyTorch writes them."""
        return [
            self._frames.setdefault(one, {"filename": one[1], "line": one[2], "name": one[0]})
            for one in PLACES[NAMES[place]]
        ]

    def segments(self) -> list[Entry]:
        """Return the segments at the end, with their blocks."""
        return [self._segment(one) for _, one in sorted(self.allocator.segments.items())]

    def _segment(self, segment: Segment) -> Entry:
        blocks: list[Entry] = []
        active = requested = 0
        block: Block | None = segment.first
        while block is not None:
            live = block.state == LIVE
            active += block.size * live
            requested += block.requested * live
            blocks.append(
                {
                    "address": block.address,
                    "size": block.size,
                    "requested_size": block.requested,
                    "state": "active_allocated" if live else "inactive",
                    "frames": self._stack(block.stack) if live and self.options.stacks else [],
                }
            )
            block = block.next
        return {
            "device": 0,
            "address": segment.address,
            "total_size": segment.size,
            "allocated_size": active,
            "active_size": active,
            "requested_size": requested,
            "stream": segment.stream,
            "segment_type": "large" if segment.large else "small",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": blocks,
        }


class Training:
    """The program."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rng = random.Random(options.seed)
        self.recorder = Recorder(options, self.rng)
        self.sizes = [options.width * options.width * 4] * options.layers
        self.sizes += [4 * options.width * options.width * 4] * options.layers
        self.gradients: list[Block] = []
        self.batches: deque[tuple[Block, int]] = deque()
        self.recent: deque[Block] = deque()
        self.cycles: list[tuple[int, Block]] = []  # (when the block is collected, block)
        self.known_lengths: set[int] = set()

    def run(self) -> dict[str, object]:
        """Return the complete snapshot."""
        recorder = self.recorder
        for size in self.sizes:
            recorder.alloc("parameters", size)
        for number in range(self.options.steps):
            if self.options.annotations == "profiler":
                recorder.annotate(f"ProfilerStep#{number}", "START")
            self._step(number)
            if self.options.annotations == "profiler":
                recorder.annotate(f"ProfilerStep#{number}", "END")
        found: dict[str, object] = {
            "segments": recorder.segments(),
            "device_traces": [recorder.events],
            "allocator_settings": {"expandable_segments": False},
        }
        if recorder.annotations:
            found["external_annotations"] = recorder.annotations
        return found

    def _step(self, number: int) -> None:
        options, recorder, rng = self.options, self.recorder, self.rng
        while len(self.batches) < 2:
            length = 64 + 8 * rng.randrange(9)
            self.batches.append((recorder.alloc("batch", length * 8 * 16), length))
        batch, length = self.batches.popleft()
        while self.gradients:
            recorder.free(self.gradients.pop())
        if number == 0:
            recorder.alloc("workspace", 8 * MIB + 128 * KIB)
        if number < 10 and length not in self.known_lengths:
            # The cache would grow with each new length, but there are few lengths.
            self.known_lengths.add(length)
            recorder.alloc("rotary", length * options.width * 4)
        self._backward(self._forward(length, saves=True), length)
        recorder.free(recorder.alloc("clip", 4 * len(self.sizes)))
        self._optimize(number)
        recorder.free(batch)
        if number in (options.steps // 5, options.steps * 3 // 5):
            recorder.alloc("buffer", MIB)
        self._leftovers(number)
        late = number >= options.leak_from
        if options.leak_bytes and late and number % options.leak_every == 0:
            recorder.alloc("leak", options.leak_bytes)
        if number % options.evaluate_every == options.evaluate_every - 1:
            for _ in range(3):
                self._forward(128, saves=False)

    def _forward(self, length: int, *, saves: bool) -> list[Block]:
        recorder, width = self.recorder, self.options.width
        saved: list[Block] = []
        prefix = "" if saves else "eval "
        if saves:
            saved.append(recorder.alloc("embed", 16 * length * width * 4))
        for _ in range(self.options.layers):
            if saves:
                recorder.free(recorder.alloc("mask", length * length))
            for place, share in ((prefix + "attention", 1), (prefix + "mlp", 4)):
                saved.append(recorder.alloc(place, 16 * length * width * 4 * share))
        if not saves:
            while saved:
                recorder.free(saved.pop())
        return saved

    def _backward(self, saved: list[Block], length: int) -> None:
        recorder, width = self.recorder, self.options.width
        loss = recorder.alloc("loss", 4)
        gradient = recorder.alloc("loss.backward", 4)
        while saved:
            place = "mlp.backward" if len(saved) % 2 else "attention.backward"
            temporary = recorder.alloc(place, 16 * length * width * 4)
            recorder.free(saved.pop())
            if len(self.gradients) < len(self.sizes):
                size = self.sizes[len(self.sizes) - 1 - len(self.gradients)]
                self.gradients.append(recorder.alloc("gradient", size))
            recorder.free(temporary)
        recorder.free(gradient)
        recorder.free(loss)

    def _optimize(self, number: int) -> None:
        recorder = self.recorder
        optimizer = "Optimizer.step#AdamW.step"
        if self.options.annotations != "none":
            recorder.annotate(optimizer, "START")
        for size in self.sizes:
            if number == 0:
                recorder.alloc("state", size)
                recorder.alloc("state", size)
            recorder.free(recorder.alloc("update", size))
        if self.options.annotations != "none":
            recorder.annotate(optimizer, "END")

    def _leftovers(self, number: int) -> None:
        """Make a few allocations that outlive a step: a ring buffer of recent numbers, and
        reference cycles that are collected later.
        """
        recorder, rng = self.recorder, self.rng
        self.recent.append(recorder.alloc("recent", 4 * KIB))
        if len(self.recent) > 5:
            recorder.free(self.recent.popleft())
        if rng.random() < 0.4:
            block = recorder.alloc("cycle", 1 << (12 + rng.randrange(6)))
            self.cycles.append((number + 1 + rng.randrange(8), block))
        for when, block in [one for one in self.cycles if one[0] <= number]:
            self.cycles.remove((when, block))
            recorder.free(block)


def snapshot(options: Options) -> dict[str, object]:
    """Return the snapshot as a dict."""
    return Training(options).run()


def snapshot_bytes(options: Options) -> bytes:
    """Return the snapshot, pickled as PyTorch does it."""
    return pickle.dumps(snapshot(options), 4)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="file; .gz compresses it")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--leak-bytes", type=int, default=64 * KIB, help="a step; 0 for no leak")
    parser.add_argument(
        "--annotations", choices=("profiler", "optimizer", "none"), default="profiler"
    )
    args = parser.parse_args(arguments)
    data = snapshot_bytes(
        Options(
            steps=args.steps,
            leak_bytes=args.leak_bytes,
            annotations=args.annotations,
            evaluate_every=15,
        )
    )
    if args.output.suffix == ".gz":
        # Leave the name and time out of the header, so that the same arguments produce the same
        # bytes.
        data = gzip.compress(data, 9, mtime=0)
    args.output.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
