"""Train a small GPT on the simulated allocator and record its events.

The training uses mixed precision (autocast to bfloat16, float32 parameters), attention without a
fused kernel, AdamW for one parameter at a time, gradient clipping, batches prefetched on a side
stream, and an evaluation now and then. Only sizes, lifetimes and call stacks are simulated, not
values.
"""

from __future__ import annotations

import random
from array import array
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from sim_allocator import FREE_COMPLETED, SEGMENT_FREE, Allocator, Block
from sim_stacks import Stacks

START_US = 1_768_990_500_000_000
SIDE_STREAM = 0x55D3_1C0A_9E40
# 47-bit addresses, as on Linux. With a terabyte per device, up to fifteen devices don't overlap.
DEVICE_BASE = 0x702A_0000_0000
DEVICE_STRIDE = 0x0100_0000_0000
CUDA_FREE_US = 85
ROWS_A_FLUSH = 1 << 16
COLUMNS = 4


@dataclass(frozen=True)
class Shape:
    """The model and its batch."""

    layers: int = 12
    batch: int = 2
    tokens: int = 1024
    width: int = 768
    heads: int = 12
    vocabulary: int = 32_000


@dataclass(frozen=True)
class Site:
    """An event without its address, time and context. Few distinct sites exist."""

    action: int
    size: int
    stream: int
    stack: int


class LimitReachedError(Exception):
    """Raised when enough events are recorded, to stop the program wherever it is."""


class Trace:
    """One device's recorded events: rows of (site, address, time_us, context) in a spool file."""

    def __init__(self, spool: IO[bytes], limit: int, whole_steps: bool, seed: int) -> None:
        self.limit = limit
        self.whole_steps = whole_steps
        self.recording = False
        self.now_us = START_US
        self.count = 0
        self.sites: list[Site] = []
        self._site_counts: Counter[int] = Counter()
        self._site_ids: dict[tuple[int, int, int, int], int] = {}
        self._rows = array("q")
        self._spool = spool
        self._context = 0
        rng = random.Random(seed)
        # Gaps are mostly a few microseconds, with an occasional wait for the device. They're in a
        # table, because drawing random numbers is slow.
        self._gaps = [int(rng.expovariate(1 / 9)) for _ in range(4093)]
        for _ in range(40):
            self._gaps[rng.randrange(4093)] = int(rng.expovariate(1 / 900))

    def new_context(self) -> int:
        """Start a new call stack, even if it's equal to an earlier one."""
        if not self.recording:
            return -1
        self._context += 1
        # The clock advances once per call stack, so that both halves of a free have the same
        # microsecond.
        self.now_us += self._gaps[self._context % 4093]
        return self._context

    def record(
        self, action: int, address: int, size: int, stream: int, stack: int, context: int
    ) -> None:
        if not self.recording:
            return
        key = (action, size, stream, stack)
        site = self._site_ids.get(key)
        if site is None:
            site = self._site_ids[key] = len(self.sites)
            self.sites.append(Site(*key))
        if action == FREE_COMPLETED:
            # The two halves of a free usually have the same microsecond.
            self.now_us += context & 7 == 0
        elif action == SEGMENT_FREE:
            self.now_us += CUDA_FREE_US
        rows = self._rows
        rows.extend((site, address, self.now_us, context))
        self.count += 1
        if len(rows) >= ROWS_A_FLUSH * COLUMNS:
            self._flush()

    def _flush(self) -> None:
        rows = self._rows
        self._site_counts.update(rows[::COLUMNS])
        self._spool.write(rows.tobytes())
        del rows[:]

    def events_by_stack(self) -> Counter[int]:
        """Return how many events have each stack, counting each context at least once."""
        self._flush()
        counts: Counter[int] = Counter()
        for site, count in self._site_counts.items():
            # The completion of a free has no stack of its own.
            if self.sites[site].action != FREE_COMPLETED:
                counts[self.sites[site].stack] += count
        return counts

    def check_limit(self) -> None:
        if self.count >= self.limit and not self.whole_steps:
            raise LimitReachedError

    def chunks(self) -> Iterator[array[int]]:
        """Yield the rows in order, in flat chunks."""
        self._flush()
        self._spool.seek(0)
        while data := self._spool.read(ROWS_A_FLUSH * COLUMNS * 8):
            rows = array("q")
            rows.frombytes(data)
            yield rows


# Forward pass, one row per allocation: tensor, size, lifetime, operator, operator's shape, call
# site. The lifetime is "saved" (for the backward pass), "cache" (autocast's weight casts), or a
# number n: freed by the nth allocation after it.
Row = tuple[str, str, "str | int", str, str, str]
LAYER_FORWARD: tuple[Row, ...] = (
    ("ln1.out", "x4", 3, "native_layer_norm", "empty", "ln1"),
    ("ln1.mean", "stat", "saved", "native_layer_norm", "empty", "ln1"),
    ("ln1.rstd", "stat", "saved", "native_layer_norm", "empty", "ln1"),
    ("qkv.in", "x2", "saved", "_to_copy", "empty", "attn.qkv"),
    ("qkv.weight", "w_qkv", "cache", "_to_copy", "empty", "attn.qkv"),
    ("qkv.bias", "b_qkv", "cache", "_to_copy", "empty", "attn.qkv"),
    ("qkv.out", "qkv", 5, "addmm", "out", "attn.qkv"),
    ("attn.q", "x2", "saved", "clone", "empty", "attn.split"),
    ("attn.k", "x2", "saved", "clone", "empty", "attn.split"),
    ("attn.v", "x2", "saved", "clone", "empty", "attn.split"),
    ("attn.scores", "att2", 1, "bmm", "out", "attn.scores"),
    ("attn.scaled", "att2", 1, "mul_Tensor", "iterator", "attn.scale"),
    ("attn.masked", "att2", 2, "masked_fill", "empty", "attn.mask"),
    ("attn.wide", "att4", 1, "_to_copy", "empty", "attn.softmax"),
    ("attn.probs", "att4", "saved", "_softmax", "out", "attn.softmax"),
    ("attn.dropped", "att4", 2, "native_dropout", "empty", "attn.drop"),
    ("attn.keep", "att1", "saved", "native_dropout", "empty", "attn.drop"),
    ("attn.narrow", "att2", "saved", "_to_copy", "empty", "attn.value"),
    ("attn.out", "x2", 1, "bmm", "out", "attn.value"),
    ("attn.merged", "x2", "saved", "clone", "empty", "attn.merge"),
    ("proj.weight", "w_proj", "cache", "_to_copy", "empty", "attn.proj"),
    ("proj.bias", "x_bias", "cache", "_to_copy", "empty", "attn.proj"),
    ("proj.out", "x2", 2, "addmm", "out", "attn.proj"),
    ("proj.dropped", "x2", 2, "native_dropout", "empty", "attn.resid"),
    ("proj.keep", "x1", "saved", "native_dropout", "empty", "attn.resid"),
    ("resid1", "x4", "saved", "add_Tensor", "iterator", "attn.add"),
    ("ln2.out", "x4", 3, "native_layer_norm", "empty", "ln2"),
    ("ln2.mean", "stat", "saved", "native_layer_norm", "empty", "ln2"),
    ("ln2.rstd", "stat", "saved", "native_layer_norm", "empty", "ln2"),
    ("fc.in", "x2", "saved", "_to_copy", "empty", "mlp.fc"),
    ("fc.weight", "w_fc", "cache", "_to_copy", "empty", "mlp.fc"),
    ("fc.bias", "b_fc", "cache", "_to_copy", "empty", "mlp.fc"),
    ("fc.out", "h2", "saved", "addmm", "out", "mlp.fc"),
    ("gelu.half", "h2", "saved", "mul_Tensor", "iterator", "mlp.gelu"),
    ("gelu.cube", "h2", 1, "pow_Tensor_Scalar", "iterator", "mlp.gelu"),
    ("gelu.scaled", "h2", 1, "mul_Tensor", "iterator", "mlp.gelu"),
    ("gelu.sum", "h2", 1, "add_Tensor", "iterator", "mlp.gelu"),
    ("gelu.inner", "h2", 1, "mul_Tensor", "iterator", "mlp.gelu"),
    ("gelu.tanh", "h2", "saved", "tanh", "iterator", "mlp.gelu"),
    ("gelu.one", "h2", "saved", "add_Tensor", "iterator", "mlp.gelu"),
    ("gelu.out", "h2", "saved", "mul_Tensor", "iterator", "mlp.gelu"),
    ("out.weight", "w_fc", "cache", "_to_copy", "empty", "mlp.proj"),
    ("out.bias", "x_bias", "cache", "_to_copy", "empty", "mlp.proj"),
    ("out.out", "x2", 2, "addmm", "out", "mlp.proj"),
    ("out.dropped", "x2", 2, "native_dropout", "empty", "mlp.drop"),
    ("out.keep", "x1", "saved", "native_dropout", "empty", "mlp.drop"),
    ("resid2", "x4", "saved", "add_Tensor", "iterator", "mlp.add"),
)
EMBED_FORWARD: tuple[Row, ...] = (
    ("embed.index", "index", "saved", "arange", "empty", "embed.pos"),
    ("embed.tok", "x4", 3, "embedding", "empty", "embed.tok"),
    ("embed.pos", "pos4", 2, "embedding", "empty", "embed.tok"),
    ("embed.sum", "x4", "saved", "add_Tensor", "iterator", "embed.add"),
)
HEAD_FORWARD: tuple[Row, ...] = (
    ("ln_f.out", "x4", 3, "native_layer_norm", "empty", "ln_f"),
    ("ln_f.mean", "stat", "saved", "native_layer_norm", "empty", "ln_f"),
    ("ln_f.rstd", "stat", "saved", "native_layer_norm", "empty", "ln_f"),
    ("head.in", "x2", "saved", "_to_copy", "empty", "head"),
    ("head.weight", "w_head", "cache", "_to_copy", "empty", "head"),
    ("logits", "logits2", 2, "mm", "out", "head"),
    ("logits.wide", "logits4", 1, "_to_copy", "empty", "loss"),
    ("logprobs", "logits4", "saved", "_log_softmax", "out", "loss"),
    ("loss", "scalar", "saved", "nll_loss_forward", "out", "loss"),
    ("loss.weight", "scalar", "saved", "nll_loss_forward", "out", "loss"),
)

# Backward pass, one row per allocation: size, lifetime ("grad": kept as the parameter's gradient),
# operator, operator's shape, autograd node, and the saved tensor that this node releases.
BackRow = tuple[str, "str | int", str, str, str, str]
_NORM_BACK = ("native_layer_norm_backward", "empty", "NativeLayerNormBackward0")
HEAD_BACKWARD: tuple[BackRow, ...] = (
    ("logits4", 2, "nll_loss_backward", "out", "NllLossBackward0", "loss.weight"),
    ("logits4", 2, "_log_softmax_backward_data", "out", "LogSoftmaxBackward0", "logprobs"),
    ("logits2", 2, "_to_copy", "empty", "ToCopyBackward0", ""),
    ("w_head", 2, "mm", "out", "MmBackward0", ""),
    ("x2", 1, "mm", "out", "MmBackward0", "head.in"),
    ("wte4", 9, "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x4", 1, "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x4", 2, *_NORM_BACK, "ln_f.mean"),
    ("x_bias4", "grad", *_NORM_BACK, "ln_f.rstd"),
    ("x_bias4", "grad", *_NORM_BACK, ""),
)
LAYER_BACKWARD: tuple[BackRow, ...] = (
    ("x2", 2, "_to_copy", "empty", "ToCopyBackward0", "resid2"),
    ("x2", 3, "native_dropout_backward", "iterator", "NativeDropoutBackward0", "out.keep"),
    ("h2", 4, "mm", "out", "AddmmBackward0", "gelu.out"),
    ("w_fc", 2, "mm", "out", "AddmmBackward0", ""),
    ("x_bias", 2, "sum_dim_IntList", "out", "AddmmBackward0", ""),
    ("w_fc4", "grad", "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x_bias4", "grad", "_to_copy", "empty", "ToCopyBackward0", ""),
    ("h2", 4, "mul_Tensor", "iterator", "MulBackward0", "gelu.one"),
    ("h2", 2, "mul_Tensor", "iterator", "MulBackward0", "gelu.half"),
    ("h2", 1, "tanh_backward", "iterator", "TanhBackward0", "gelu.tanh"),
    ("h2", 3, "mul_Tensor", "iterator", "MulBackward0", ""),
    ("h2", 1, "mul_Tensor", "iterator", "MulBackward0", ""),
    ("h2", 1, "pow_Tensor_Scalar", "iterator", "PowBackward0", ""),
    ("h2", 1, "mul_Tensor", "iterator", "PowBackward0", ""),
    ("h2", 2, "mul_Tensor", "iterator", "PowBackward0", "fc.out"),
    ("h2", 1, "add_Tensor", "iterator", "", ""),
    ("h2", 4, "add_Tensor", "iterator", "", ""),
    ("x2", 5, "mm", "out", "AddmmBackward0", ""),
    ("w_fc", 2, "mm", "out", "AddmmBackward0", "fc.in"),
    ("b_fc", 2, "sum_dim_IntList", "out", "AddmmBackward0", ""),
    ("w_fc4", "grad", "_to_copy", "empty", "ToCopyBackward0", ""),
    ("b_fc4", "grad", "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x4", 3, "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x4", 4, *_NORM_BACK, "ln2.mean"),
    ("x_bias4", "grad", *_NORM_BACK, "ln2.rstd"),
    ("x_bias4", "grad", *_NORM_BACK, "resid1"),
    ("x4", 12, "add_Tensor", "iterator", "", ""),
    ("x2", 1, "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x2", 3, "native_dropout_backward", "iterator", "NativeDropoutBackward0", "proj.keep"),
    ("x2", 5, "mm", "out", "AddmmBackward0", ""),
    ("w_proj", 2, "mm", "out", "AddmmBackward0", "attn.merged"),
    ("x_bias", 2, "sum_dim_IntList", "out", "AddmmBackward0", ""),
    ("w_proj4", "grad", "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x_bias4", "grad", "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x2", 2, "clone", "empty", "TransposeBackward0", ""),
    ("att2", 2, "bmm", "out", "BmmBackward0", "attn.v"),
    ("x2", 8, "bmm", "out", "BmmBackward0", "attn.narrow"),
    ("att4", 1, "_to_copy", "empty", "ToCopyBackward0", ""),
    ("att4", 1, "native_dropout_backward", "iterator", "NativeDropoutBackward0", "attn.keep"),
    ("att4", 1, "_softmax_backward_data", "out", "SoftmaxBackward0", "attn.probs"),
    ("att2", 1, "_to_copy", "empty", "ToCopyBackward0", ""),
    ("att2", 1, "masked_fill", "empty", "MaskedFillBackward0", ""),
    ("att2", 2, "mul_Tensor", "iterator", "MulBackward0", ""),
    ("x2", 3, "bmm", "out", "BmmBackward0", "attn.k"),
    ("x2", 2, "bmm", "out", "BmmBackward0", "attn.q"),
    ("qkv", 4, "cat", "empty", "SplitBackward0", ""),
    ("x2", 5, "mm", "out", "AddmmBackward0", ""),
    ("w_qkv", 2, "mm", "out", "AddmmBackward0", "qkv.in"),
    ("b_qkv", 2, "sum_dim_IntList", "out", "AddmmBackward0", ""),
    ("w_qkv4", "grad", "_to_copy", "empty", "ToCopyBackward0", ""),
    ("b_qkv4", "grad", "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x4", 2, "_to_copy", "empty", "ToCopyBackward0", ""),
    ("x4", 2, *_NORM_BACK, "ln1.mean"),
    ("x_bias4", "grad", *_NORM_BACK, "ln1.rstd"),
    ("x_bias4", "grad", *_NORM_BACK, ""),
    ("x4", 4, "add_Tensor", "iterator", "", ""),
)
EMBED_BACKWARD: tuple[BackRow, ...] = (
    ("wte4", "grad", "embedding_dense_backward", "empty", "EmbeddingBackward0", "embed.sum"),
    ("wpe4", "grad", "embedding_dense_backward", "empty", "EmbeddingBackward0", "embed.index"),
)
LAYER_PARAMETERS = [
    *("x_bias4", "x_bias4", "w_qkv4", "b_qkv4", "w_proj4", "x_bias4"),
    *("x_bias4", "x_bias4", "w_fc4", "b_fc4", "w_fc4", "x_bias4"),
]


def sizes_of(shape: Shape, tokens: int) -> dict[str, int]:
    """Return the bytes of each kind of tensor at this sequence length."""
    rows, width = shape.batch * tokens, shape.width
    attention = shape.batch * shape.heads * tokens * tokens
    weights = {"qkv": 3 * width * width, "proj": width * width, "fc": 4 * width * width}
    biases = {"b_qkv": 3 * width, "b_fc": 4 * width, "x_bias": width}
    sizes = {
        "x1": rows * width, "x2": rows * width * 2, "x4": rows * width * 4,
        "h2": rows * width * 8, "qkv": rows * width * 6, "stat": rows * 4,
        "att1": attention, "att2": attention * 2, "att4": attention * 4,
        "index": tokens * 8, "pos4": tokens * width * 4, "ids": rows * 8, "scalar": 4,
        "logits2": rows * shape.vocabulary * 2, "logits4": rows * shape.vocabulary * 4,
        "w_head": shape.vocabulary * width * 2, "wte4": shape.vocabulary * width * 4,
        "wpe4": shape.tokens * width * 4,
    }  # fmt: skip
    for name, elements in weights.items():
        sizes[f"w_{name}"], sizes[f"w_{name}4"] = elements * 2, elements * 4
    for name, elements in biases.items():
        sizes[name], sizes[f"{name}4"] = elements * 2, elements * 4
    return sizes


class Temporary:
    """A tensor that is freed after this many more allocations."""

    __slots__ = ("block", "left", "stack")

    def __init__(self, block: Block, left: int, stack: int) -> None:
        self.block = block
        self.left = left
        self.stack = stack


Plan = tuple[int, int, "str | int", str, int]  # stack, size, lifetime, saved name, its free's stack


class Program:
    """A process with one device that builds the model and trains it until the trace is full."""

    def __init__(self, device: int, shape: Shape, stacks: Stacks, trace: Trace, seed: int) -> None:
        self.device = device
        self.shape = shape
        self.stacks = stacks
        self.trace = trace
        self.allocator = Allocator(self.trace, DEVICE_BASE + device * DEVICE_STRIDE)
        self.annotations: list[dict[str, object]] = []
        self._draw = random.Random(seed * 1000 + device).random
        self._parameters: list[tuple[Block, str]] = []
        self._states: list[Block] = []
        self._gradients: list[Block] = []
        self._saved: list[tuple[str, Block]] = []
        self._cache: list[Block] = []
        self._temporaries: deque[Temporary] = deque()
        self._batches: deque[tuple[Block, Block]] = deque()
        self._plans: dict[tuple[str, str, int], list[Plan]] = {}

    # -- running

    def run(self, baseline: bool) -> None:
        """Build and train the model; stop at the trace's limit. With `baseline`, recording begins
        with the second step.
        """
        trace = self.trace
        trace.recording = not baseline
        number = 0
        try:
            self._build()
            if baseline:
                self._step(number)
                self.allocator.empty_cache(self.stacks.bare("empty_cache", "train"))
                trace.now_us += 250_000
                trace.recording = True
                number += 1
            while trace.count < trace.limit:
                self._step(number)
                number += 1
        except LimitReachedError:
            pass
        self.allocator.complete_all()

    def _build(self) -> None:
        sizes = sizes_of(self.shape, self.shape.tokens)
        kinds = ["wte4", "wpe4", *LAYER_PARAMETERS * self.shape.layers, "x_bias4", "x_bias4"]
        stack = self.stacks.alloc("_to_copy", "empty", "init", "build")
        for kind in kinds:
            self._parameters.append((self._malloc(sizes[kind], stack), kind))

    def _step(self, number: int) -> None:
        draw = self._draw
        # Most batches are full. The last batch of each document is shorter.
        tokens = self.shape.tokens
        if draw() < 0.3:
            tokens -= tokens // 16 * (1 + int(draw() * 4))
        self._annotate(f"ProfilerStep#{number}", "START")
        self._zero_grad()
        batch = self._next_batch(tokens)
        if number % 4 == 3:
            # A large batch is split into two halves.
            self._forward(tokens, "accumulate")
            self._backward(tokens)
        self._forward(tokens, "train")
        self._backward(tokens)
        self._clip()
        self._annotate("Optimizer.step#AdamW.step", "START")
        self._optimize()
        self._annotate("Optimizer.step#AdamW.step", "END")
        self._finish_batch(batch)
        self._log(number)
        self._annotate(f"ProfilerStep#{number}", "END")
        if number % 25 == 10:
            self._evaluate()

    def _annotate(self, name: str, stage: str) -> None:
        if self.trace.recording:
            now = self.trace.now_us
            self.annotations.append(
                {"stage": stage, "name": name, "device": self.device, "time_us": now}
            )

    # -- allocations

    def _malloc(self, size: int, stack: int, stream: int = 0) -> Block:
        self.trace.check_limit()
        return self.allocator.malloc(size, stream, stack)

    def _free(self, block: Block, stack: int) -> None:
        self.trace.check_limit()
        self.allocator.free(block, stack)

    def _hold(self, block: Block, allocations: int, stack: int) -> None:
        self._temporaries.append(Temporary(block, allocations, stack))

    def _age(self) -> None:
        """After each allocation, free the temporaries that are due."""
        temporaries = self._temporaries
        for _ in range(len(temporaries)):
            temporary = temporaries.popleft()
            # Sometimes Python's garbage collector frees something a little later.
            if temporary.left > 0 or self._draw() < 0.004:
                temporary.left -= 1
                temporaries.append(temporary)
            else:
                self._free(temporary.block, temporary.stack)

    def _drop_temporaries(self) -> None:
        while self._temporaries:
            temporary = self._temporaries.popleft()
            self._free(temporary.block, temporary.stack)

    # -- the phases of a step

    def _zero_grad(self) -> None:
        self._annotate("Optimizer.zero_grad#AdamW.zero_grad", "START")
        stack = self.stacks.free("zero_grad", "train")
        while self._gradients:
            self._free(self._gradients.pop(), stack)
        self._annotate("Optimizer.zero_grad#AdamW.zero_grad", "END")

    def _next_batch(self, tokens: int) -> tuple[Block, Block]:
        stack = self.stacks.alloc("_to_copy", "empty", "prefetch", "train")
        size = self.shape.batch * tokens * 8
        while len(self._batches) < 2:
            inputs = self._malloc(size, stack, SIDE_STREAM)
            targets = self._malloc(size, stack, SIDE_STREAM)
            self._batches.append((inputs, targets))
        return self._batches.popleft()

    def _finish_batch(self, batch: tuple[Block, Block]) -> None:
        """Free the batch, which was allocated on the copy stream and used on the main one."""
        stack = self.stacks.free("batch", "train")
        for block in batch:
            self.trace.check_limit()
            self.allocator.free_after(block, stack, 20 + int(self._draw() * 60))

    def _plan_forward(self, name: str, rows: tuple[Row, ...], tokens: int, root: str) -> list[Plan]:
        key = (name, root, tokens)
        plan = self._plans.get(key)
        if plan is None:
            sizes, stacks = sizes_of(self.shape, tokens), self.stacks
            plan = self._plans[key] = [
                (
                    stacks.alloc(op, shape, place, root), sizes[size], until, tensor,
                    stacks.free(place, root),
                )
                for tensor, size, until, op, shape, place in rows
            ]  # fmt: skip
        return plan

    def _forward_rows(self, plan: list[Plan], keep: bool) -> None:
        for stack, size, until, tensor, free_stack in plan:
            block = self._malloc(size, stack)
            self._age()
            if until == "cache":
                self._cache.append(block)
            elif isinstance(until, int):
                self._hold(block, until, free_stack)
            elif keep:
                self._saved.append((tensor, block))
            else:
                # Without gradients, a tensor isn't saved. It lives only as long as a local
                # variable.
                self._hold(block, 3, free_stack)

    def _forward(self, tokens: int, root: str) -> None:
        keep = root in ("train", "accumulate")
        self._forward_rows(self._plan_forward("embed", EMBED_FORWARD, tokens, root), keep)
        layer = self._plan_forward("layer", LAYER_FORWARD, tokens, root)
        for _ in range(self.shape.layers):
            self._forward_rows(layer, keep)
        self._forward_rows(self._plan_forward("head", HEAD_FORWARD, tokens, root), keep)
        self._drop_temporaries()
        stack = self.stacks.free("autocast", root)
        while self._cache:
            self._free(self._cache.pop(), stack)

    def _plan_backward(self, name: str, rows: tuple[BackRow, ...], tokens: int) -> list[Plan]:
        key = (name, "backward", tokens)
        plan = self._plans.get(key)
        if plan is None:
            sizes, stacks = sizes_of(self.shape, tokens), self.stacks
            plan = self._plans[key] = [
                (
                    stacks.backward(op, shape, node or "AccumulateGrad"), sizes[size], until, drops,
                    stacks.released(node) if drops else stacks.gradient_freed(node),
                )
                for size, until, op, shape, node, drops in rows
            ]  # fmt: skip
        return plan

    def _backward_rows(self, plan: list[Plan], saved: dict[str, Block]) -> None:
        accumulated = self.stacks.gradient_freed("AccumulateGrad")
        # Gradients from an earlier micro-step stay. This micro-step's gradients are added to them
        # and freed.
        fresh_gradients = len(self._gradients) < len(self._parameters)
        for stack, size, until, drops, free_stack in plan:
            block = self._malloc(size, stack)
            self._age()
            if isinstance(until, int):
                self._hold(block, until, accumulated if drops else free_stack)
            elif fresh_gradients:
                self._gradients.append(block)
            else:
                self._hold(block, 1, accumulated)
            if drops and drops in saved:
                self._free(saved.pop(drops), free_stack)

    def _take_saved(self, count: int) -> dict[str, Block]:
        """Return the last `count` saved tensors, those of one layer, by name."""
        taken = dict(self._saved[-count:])
        del self._saved[-count:]
        return taken

    def _backward(self, tokens: int) -> None:
        stack = self.stacks.alloc("ones_like", "empty", "backward", "train")
        loss_gradient = self._malloc(4, stack)
        layer_count = sum(row[2] == "saved" for row in LAYER_FORWARD)
        head = self._take_saved(sum(row[2] == "saved" for row in HEAD_FORWARD))
        loss = head.pop("loss")
        self._backward_rows(self._plan_backward("head", HEAD_BACKWARD, tokens), head)
        plan = self._plan_backward("layer", LAYER_BACKWARD, tokens)
        for _ in range(self.shape.layers):
            self._backward_rows(plan, self._take_saved(layer_count))
        self._backward_rows(
            self._plan_backward("embed", EMBED_BACKWARD, tokens), self._take_saved(2)
        )
        self._drop_temporaries()
        for block in (loss_gradient, loss):
            self._free(block, self.stacks.free("backward", "train"))

    def _clip(self) -> None:
        norm = self.stacks.alloc("linalg_vector_norm", "out", "clip.norm", "train")
        norms = [self._malloc(4, norm) for _ in self._gradients]
        self._malloc_and_free(len(norms) * 4, "stack", "clip.norm")
        for block in norms:
            self._free(block, self.stacks.free("clip.norm", "train"))
        for op in ("add_Tensor", "reciprocal", "clamp"):
            self._malloc_and_free(4, op, "clip.scale")

    def _malloc_and_free(self, size: int, op: str, place: str) -> None:
        block = self._malloc(size, self.stacks.alloc(op, "iterator", place, "train"))
        self._free(block, self.stacks.free(place, "train"))

    def _optimize(self) -> None:
        sizes, stacks = sizes_of(self.shape, self.shape.tokens), self.stacks
        if not self._states:
            stack = stacks.alloc("zeros_like", "empty", "adamw.init", "train")
            for _, kind in self._parameters:
                self._states += [self._malloc(sizes[kind], stack) for _ in range(2)]
        root = stacks.alloc("sqrt", "iterator", "adamw.denom", "train")
        divided = stacks.alloc("div_Tensor", "iterator", "adamw.denom", "train")
        first, second = stacks.free("adamw.denom", "train"), stacks.free("adamw.update", "train")
        for _, kind in self._parameters:
            size = sizes[kind]
            square_root = self._malloc(size, root)
            denominator = self._malloc(size, divided)
            self._free(square_root, first)
            self._free(denominator, second)

    def _log(self, number: int) -> None:
        if number % 10 == 0:
            self._malloc_and_free(4, "mean", "log")
        if self._draw() < 0.25:
            # A garbage collection at this point frees two small leftovers of a reference cycle.
            stack = self.stacks.alloc("detach", "empty", "gc", "train")
            leftovers = [self._malloc(1 << (9 + int(self._draw() * 6)), stack) for _ in range(2)]
            for block in leftovers:
                self._free(block, self.stacks.free("gc", "train"))

    def _evaluate(self) -> None:
        for _ in range(4):
            self._forward(self.shape.tokens, "eval")
        for tokens in range(64, 576, 64):
            self._forward(tokens, "sample")
        self.allocator.empty_cache(self.stacks.bare("empty_cache", "eval"))
