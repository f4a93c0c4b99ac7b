"""One device's allocations as columns, to compute the peak without some of the allocations."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memreplay.analysis.code.patterns import regexes
from memreplay.analysis.groups.ways.code import NO_MODULE_RAN, ByModule
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Replay

# Flags for what a stack's `file:function` frames match: operators and autograd nodes (with C++
# frames), PyTorch's Python functions, and user functions with the same names.
SOFTMAX, LOSS, FOREACH, LINEAR, ATTENTION, EVALUATES, WORKSPACE = 1, 2, 4, 8, 16, 32, 64
_FRAMES = regexes(
    (
        SOFTMAX,
        r"\bat::_ops::_?softmax\w{0,32}::|:(?:\w+\.)?_?softmax$|(?<!Log)SoftmaxBackward",
    ),
    (
        LOSS,
        (
            r"\bat::_ops::_?(?:log_softmax|cross_entropy|nll_loss)\w{0,32}::"
            r"|:(?:\w+\.)?\w{0,32}(?:log_softmax|cross_entropy|nll_loss)$"
            r"|(?:LogSoftmax|NllLoss|CrossEntropyLoss)\w{0,32}Backward"
        ),
    ),
    (
        FOREACH,
        r"\bat::_ops::_foreach_\w{1,64}::|/torch/optim/\w{1,64}\.py:_multi_tensor_\w{1,64}$",
    ),
    (LINEAR, r"\bat::_ops::(?:linear|addmm)\w{0,32}::|/torch/nn/modules/linear\.py:"),
    (EVALUATES, r":(?:\w+\.)?\w{0,32}(?:eval|valid|infer|predict)\w{0,32}$"),
    (
        ATTENTION,
        r"(?i:attn|attention)[^/:]{0,64}$|(?i:attn|attention)[^/:]{0,64}:[^:]{0,64}$",
    ),
    # cuBLAS keeps one workspace per thread, so the backward thread also has one.
    (WORKSPACE, r"\bat::cuda::(?:getCurrentCUDABlas|setWorkspace|getCUDABlasLtWorkspace)"),
)
# Categories of memory that outlasts a single computation, unlike its intermediate results.
KEPT = (
    "parameters",
    "buffers",
    "gradients",
    "optimizer state",
    "KV cache",
    "inputs",
    "data loading",
    "NCCL",
)
_IN_NONE = ByModule.nothing | {NO_MODULE_RAN}


class Place(NamedTuple):
    """A line of code that holds memory at the peak."""

    stack: int
    """Number of the stack that holds most of the line's bytes."""
    bytes: int


class Lives:
    """The recorded allocations of one device, one row each, in event order. Excludes carried-over
    blocks.

    Events are numbered from 0, the first selected one. If an allocation isn't freed, its end is
    `events`, the number of events.
    """

    def __init__(self, replay: Replay, grouper: Grouper) -> None:
        self._grouper = grouper
        self._found: dict[str, tuple[NDArray[np.uint32], list[int]]] = {}
        self._code: NDArray[np.uint64] | None = None
        self._usage = replay.measure("requested")
        self.recorded = grouper.snap.recorded is not None
        """Whether the recorder noted their purpose."""
        self.events = replay.events
        found, first = self._usage.lifetimes, replay.first_event
        recorded = slice(int((found.alloc_event >= 0).sum()))  # carried-over allocations follow
        self.carried: NDArray[np.int64] = found.size[recorded.stop :]
        """Sizes of carried-over allocations."""
        ends = found.free_event[recorded] - first
        self.start: NDArray[np.int64] = found.alloc_event[recorded] - first
        """The events that allocated them."""
        self.end: NDArray[np.int64] = np.where(ends < 0, self.events, ends)
        """The events that freed them."""
        self.bytes: NDArray[np.int64] = found.size[recorded]
        """Requested bytes."""
        self.stack: NDArray[np.uint32] = found.stack[recorded]
        """Stack numbers."""
        self.curve: NDArray[np.int64] = self._usage.series
        """Requested bytes after each event."""
        self.peak_bytes = self._usage.peak.bytes
        self.peak = self._usage.peak.event_index - replay.first_event
        """Event of the peak; -1 for the start."""

    def __len__(self) -> int:
        return len(self.start)

    def of(self, way: str, *names: str) -> NDArray[np.bool_]:
        """Return which rows are in groups with one of these names."""
        return self._named(way, lambda name: name in names)

    def _named(self, way: str, wanted: Callable[[str], bool]) -> NDArray[np.bool_]:
        dimensions = self._grouper.dimensions
        numbers, known = self._groups(way)
        chosen = [wanted(dimensions.label(self._usage, way, name).text) for name in known]
        return np.array(chosen, bool)[numbers] if len(numbers) else np.zeros(0, bool)

    def _groups(self, way: str) -> tuple[NDArray[np.uint32], list[int]]:
        """Return each row's group index, and the groups' names."""
        if way not in self._found:
            keys = self._grouper.dimensions.keys(self._usage, way)
            numbers = np.asarray(keys.numbers(self.start.data, np.zeros(0, np.int64).data)[0])
            self._found[way] = numbers, memoryview(keys.names()).tolist()
        return self._found[way]

    def of_modules(self, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        """Return which rows were allocated by recorded modules whose names match a pattern."""
        if not self.recorded:
            return np.zeros(len(self), bool)
        return self._named("module", lambda name: pattern.search(name) is not None)

    def in_modules(self) -> NDArray[np.bool_]:
        """Return which rows are known to be allocated by a module."""
        return self._named("module", lambda name: name not in _IN_NONE)

    def of_same(self, way: str, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which rows are in the same group as any chosen row."""
        numbers, _ = self._groups(way)
        return np.isin(numbers, np.unique(numbers[chosen]))

    def forward(self) -> NDArray[np.bool_]:
        """Return which rows are known to be allocated by a forward pass."""
        if self.recorded:
            return self.of("phase", "forward") & ~self.of("category", *KEPT)
        return self.of("category", "activations", "attention")

    def code(self) -> NDArray[np.uint64]:
        """Return for each row the flags (SOFTMAX to WORKSPACE) of all frames in its stack."""
        if self._code is None:
            self._code = self._shown()
        return self._code

    def _shown(self) -> NDArray[np.uint64]:
        replay = self._usage.replay
        of_frames = memoryview(_FRAMES.of_frames(self._grouper.snap.native))
        if not any(of_frames):
            return np.zeros(len(self), np.uint64)
        keys = _groups.rule_keys(
            replay.native,
            of_frames,
            array("Q", bytes(8 * len(of_frames))),
            0,
            *self._grouper.known.ranks,
        )
        numbers = np.asarray(keys.numbers(self.start.data, np.zeros(0, np.int64).data)[0])
        found: NDArray[np.uint64] = np.asarray(keys.names()).astype(np.uint64)[numbers]
        return found

    def age(self) -> NDArray[np.int64]:
        """Count, for each row, the allocations made while it was live, including its own."""
        return np.searchsorted(self.start, self.end) - np.arange(len(self))

    def count_after(self, event: int) -> int:
        """Return the number of rows allocated after an event."""
        return int((self.start > event).sum())

    def held(self, chosen: NDArray[np.bool_], at: int | None = None) -> int:
        """Return the bytes that the chosen rows hold after an event, or at the peak."""
        event = self.peak if at is None else at
        live = chosen & (self.start <= event) & (self.end > event)
        return int(self.bytes[live].sum())

    def saved(
        self,
        chosen: NDArray[np.bool_],
        *,
        after: NDArray[np.int64] | None = None,
        part: float = 1.0,
    ) -> int:
        """Return how far the peak falls if the chosen rows lose `part` of their bytes. A row loses
        them from its start on, or from its event in `after` if that's later.
        """
        begin = self.start if after is None else np.maximum(self.start, after)
        chosen = chosen & (begin < self.end)
        change = np.zeros(self.events + 1, np.int64)
        weights = (self.bytes[chosen] * part).astype(np.int64)
        np.add.at(change, begin[chosen], weights)
        np.add.at(change, self.end[chosen], -weights)
        return self.lowered(change)

    def recomputed(
        self, chosen: NDArray[np.bool_], failed: Sequence[int], sizes: Sequence[int], limit: int
    ) -> int:
        """Return how far the peak falls if the chosen rows are recomputed, exactly as `memreplay
        simulate --checkpoint` simulates it (engine/simulate/editing.pyx).

        `failed`, `sizes`: events and bytes of failed requests. A request succeeds, and counts for
        the new peak, if it then fits in `limit` bytes.
        """
        rows = np.arange(len(self))
        freed = self._freed()
        before = np.searchsorted(self.start, freed)  # rows allocated before each row's free
        # If no row was allocated between the error and the free, the error caused the free.
        last = self.start[before - 1] if len(self) else self.start
        lost = np.searchsorted(failed, freed) > np.searchsorted(failed, last)
        again = (freed < self.events) & ~lost
        moved = chosen & (before >= rows + 2 + again)
        after = self.start[np.minimum(rows + 1, len(self) - 1)] + 1
        until = np.where(again, last, self.end)
        change = np.zeros(self.events + 1, np.int64)
        np.add.at(change, after[moved], self.bytes[moved])
        np.add.at(change, until[moved], -self.bytes[moved])
        at = np.array(failed, np.int64)
        served = (self.curve - np.cumsum(change[:-1]))[at] + np.array(sizes, np.int64)
        high = int(served[served <= limit].max(initial=0))
        return max(0, min(self.lowered(change), self.peak_bytes - high))

    def _freed(self) -> NDArray[np.int64]:
        """Return each row's event at which the program freed it. It may end later, if its free
        waits for a stream.
        """
        held = self._usage.replay.measure("held").lifetimes
        first = self._usage.replay.first_event
        known = (held.alloc_event >= 0) & (held.free_event >= 0)
        found: NDArray[np.int64] = self.end.copy()
        rows = np.searchsorted(self.start, held.alloc_event[known] - first)
        found[rows] = held.free_event[known] - first
        return found

    def lowered(self, change: NDArray[np.int64]) -> int:
        """Return how far the peak falls if usage after each event is lower by the running sum of
        `change` (one value per event, and one for the end).
        """
        left = self.curve - np.cumsum(change[:-1])
        high = max(int(left.max(initial=0)), self._usage.start_bytes)
        return max(0, self.peak_bytes - high)

    def largest_place(
        self, chosen: NDArray[np.bool_], among: NDArray[np.bool_] | None = None
    ) -> Place | None:
        """Return the line that holds most of these rows' bytes at the peak; None if the rows hold
        nothing. `among`: rows whose lines are preferred.
        """
        live = chosen & (self.start <= self.peak) & (self.end > self.peak)
        if not live.any():
            return None
        lines = self._groups("line")[0]
        some = live if among is None or not (live & among).any() else live & among
        line = _largest(lines[some], self.bytes[some])
        there = live & (lines == line)
        stack = _largest(self.stack[there], self.bytes[there])
        return Place(stack, int(self.bytes[there].sum()))


def _largest(numbers: NDArray[np.uint32], sizes: NDArray[np.int64]) -> int:
    """Return the number whose total size is largest."""
    found, inverse = np.unique(numbers, return_inverse=True)
    return int(found[np.bincount(inverse, sizes).argmax()])
