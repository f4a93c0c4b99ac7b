"""The allocations of one device as columns, and how high its peak were without some of them."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from memreplay.analysis.code.late import Late
from memreplay.analysis.code.patterns import bits_of_frames
from memreplay.analysis.groups.ways.code import NO_MODULE_RAN, ByModule
from memreplay.engine.query import _groups

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from numpy.typing import NDArray

    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Replay

# What code shows in the `file:function` of any of its frames: operators and autograd's nodes where
# C++ was recorded, and functions of PyTorch's Python and of users, who give theirs the same names.
SOFTMAX, LOSS, FOREACH, LINEAR, ATTENTION, EVALUATES, WORKSPACE = 1, 2, 4, 8, 16, 32, 64
_PATTERNS = (
    (
        SOFTMAX,
        Late(r"\bat::_ops::_?softmax\w{0,32}::|:(?:\w+\.)?_?softmax$|(?<!Log)SoftmaxBackward"),
    ),
    (
        LOSS,
        Late(
            r"\bat::_ops::_?(?:log_softmax|cross_entropy|nll_loss)\w{0,32}::"
            r"|:(?:\w+\.)?\w{0,32}(?:log_softmax|cross_entropy|nll_loss)$"
            r"|(?:LogSoftmax|NllLoss|CrossEntropyLoss)\w{0,32}Backward"
        ),
    ),
    (
        FOREACH,
        Late(r"\bat::_ops::_foreach_\w{1,64}::|/torch/optim/\w{1,64}\.py:_multi_tensor_\w{1,64}$"),
    ),
    (LINEAR, Late(r"\bat::_ops::(?:linear|addmm)\w{0,32}::|/torch/nn/modules/linear\.py:")),
    (EVALUATES, Late(r":(?:\w+\.)?\w{0,32}(?:eval|valid|infer|predict)\w{0,32}$")),
    (
        ATTENTION,
        Late(r"(?i:attn|attention)[^/:]{0,64}$|(?i:attn|attention)[^/:]{0,64}:[^:]{0,64}$"),
    ),
    # cuBLAS keeps it for each thread, that of the backward pass, too.
    (WORKSPACE, Late(r"\bat::cuda::(?:getCurrentCUDABlas|setWorkspace|getCUDABlasLtWorkspace)")),
)
# Categories of what no form of a computation makes: it is there before and after.
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


class Lives:
    """The allocations that were recorded of one device, a row each in order of their events; what
    was there before the recording has none.

    Events count from 0, the first that was read; an end that no event tells is `events`.
    """

    def __init__(self, replay: Replay, grouper: Grouper) -> None:
        self._grouper = grouper
        self._found: dict[str, tuple[NDArray[np.uint32], list[int]]] = {}
        self._code: NDArray[np.uint64] | None = None
        self._usage = replay.measure("requested")
        self.recorded = grouper.snap.recorded is not None
        """Whether memreplay's recorder noted what they are for."""
        self.events = replay.events
        found, first = self._usage.lifetimes, replay.first_event
        recorded = slice(int((found.alloc_event >= 0).sum()))  # then come those from before
        self.carried: NDArray[np.int64] = found.size[recorded.stop :]
        """The sizes of those from before."""
        ends = found.free_event[recorded] - first
        self.start: NDArray[np.int64] = found.alloc_event[recorded] - first
        """The events that made them."""
        self.end: NDArray[np.int64] = np.where(ends < 0, self.events, ends)
        """The events that ended them."""
        self.bytes: NDArray[np.int64] = found.size[recorded]
        """What was asked for."""
        self.stack: NDArray[np.uint32] = found.stack[recorded]
        """Their stacks, by number."""
        self.curve: NDArray[np.int64] = self._usage.series
        """Requested bytes after each event."""
        self.peak_bytes = self._usage.peak.bytes
        self.peak = self._usage.peak.event_index - replay.first_event
        """The event of the peak; -1 for the start."""

    def __len__(self) -> int:
        return len(self.start)

    def of(self, way: str, *names: str) -> NDArray[np.bool_]:
        """Which of them are in the groups of these names, as the grouper's snapshot has them."""
        return self._named(way, lambda name: name in names)

    def _named(self, way: str, wanted: Callable[[str], bool]) -> NDArray[np.bool_]:
        dimensions = self._grouper.dimensions
        numbers, known = self._groups(way)
        chosen = [wanted(dimensions.label(self._usage, way, name).text) for name in known]
        return np.array(chosen, bool)[numbers] if len(numbers) else np.zeros(0, bool)

    def _groups(self, way: str) -> tuple[NDArray[np.uint32], list[int]]:
        """(the group of each, the groups' names)."""
        if way not in self._found:
            keys = self._grouper.dimensions.keys(self._usage, way)
            numbers = np.asarray(keys.numbers(self.start.data, np.zeros(0, np.int64).data)[0])
            self._found[way] = numbers, memoryview(keys.names()).tolist()
        return self._found[way]

    def of_modules(self, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        """Which of them modules made whose names the recorder noted, and the pattern is found in;
        none if it noted none."""
        if not self.recorded:
            return np.zeros(len(self), bool)
        return self._named("module", lambda name: pattern.search(name) is not None)

    def in_modules(self) -> NDArray[np.bool_]:
        """Which of them a module made, as far as the file tells."""
        return self._named("module", lambda name: name not in _IN_NONE)

    def of_same(self, way: str, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of them share a group with a chosen one."""
        numbers, _ = self._groups(way)
        return np.isin(numbers, np.unique(numbers[chosen]))

    def forward(self) -> NDArray[np.bool_]:
        """Which of them a forward pass made, as far as the file tells."""
        if self.recorded:
            return self.of("phase", "forward") & ~self.of("category", *KEPT)
        return self.of("category", "activations", "attention")

    def code(self) -> NDArray[np.uint64]:
        """What the frames of each show, a bit each: SOFTMAX to WORKSPACE."""
        if self._code is None:
            self._code = self._shown()
        return self._code

    def _shown(self) -> NDArray[np.uint64]:
        replay = self._usage.replay
        of_frames = array("Q", bits_of_frames(self._grouper.snap, _PATTERNS))
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
        """How many were made, each itself included, before it ended."""
        return np.searchsorted(self.start, self.end) - np.arange(len(self))

    def made_after(self, event: int) -> int:
        """How many of them were made after an event."""
        return int((self.start > event).sum())

    def held(self, chosen: NDArray[np.bool_], at: int | None = None) -> int:
        """What these hold after an event, or at the peak."""
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
        """By how much the peak falls without this part of these, or without what they are from the
        events `after` on, one for each row."""
        begin = self.start if after is None else np.maximum(self.start, after)
        chosen = chosen & (begin < self.end)
        change = np.zeros(self.events + 1, np.int64)
        weights = (self.bytes[chosen] * part).astype(np.int64)
        np.add.at(change, begin[chosen], weights)
        np.add.at(change, self.end[chosen], -weights)
        return self.lowered(change)

    def lowered(self, change: NDArray[np.int64]) -> int:
        """By how much the peak falls without what these changes add up to: one for each event, and
        one for the end."""
        left = self.curve - np.cumsum(change[:-1])
        high = max(int(left.max(initial=0)), self._usage.start_bytes)
        return max(0, self.peak_bytes - high)

    def largest_stack(self, chosen: NDArray[np.bool_]) -> int | None:
        """The stack that holds most of these at the peak, by its number; None if none does."""
        live = chosen & (self.start <= self.peak) & (self.end > self.peak)
        if not live.any():
            return None
        stacks, inverse = np.unique(self.stack[live], return_inverse=True)
        return int(stacks[np.bincount(inverse, self.bytes[live]).argmax()])
