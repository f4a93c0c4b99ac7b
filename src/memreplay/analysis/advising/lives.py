"""One device's allocations as columns, to compute the peak without some of the allocations."""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.analysis.code.patterns import regexes
from memreplay.analysis.groups.ways.code import NO_MODULE_RAN, ByModule
from memreplay.engine.query import _groups
from memreplay.engine.query._vectors import chosen as chosen_of
from memreplay.engine.query._vectors import counting, vector, zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.engine.query._groups import Keys
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.replay import Replay

# Flags for what a stack's `file:function` frames match: operators and autograd nodes (with C++
# frames), PyTorch's Python functions, and user functions with the same names.
SOFTMAX, LOSS, FOREACH, LINEAR, ATTENTION, EVALUATES, WORKSPACE = 1, 2, 4, 8, 16, 32, 64
REDUCES = 128  # autograd sums a gradient over broadcast dimensions, after the node has run
CASTS = 256  # autocast converts a tensor
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
    (CASTS, r"\bat::autocast::cached_cast"),
    (REDUCES, r"\btorch::autograd::(?:InputMetadata::|validate_outputs)"),
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


class Place(Struct, frozen=True):
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
        self._found: dict[str, tuple[Vector, list[int]]] = {}
        self._code: Vector | None = None
        self._usage = replay.measure("requested")
        self.recorded = grouper.snap.recorded is not None
        """Whether the recorder noted their purpose."""
        self.events = replay.events
        found, first = self._usage.lifetime_columns(), replay.first_event
        count = (found["alloc_event"] >= 0).count()
        recorded = slice(count)  # carried-over allocations follow
        self.carried = found["size"][count:]
        """Sizes of carried-over allocations."""
        ends = found["free_event"][recorded] - first
        # 4 bytes per row are enough for events, because there are fewer than 2**32.
        self.start = (found["alloc_event"][recorded] - first).as_format("I")
        """The events that allocated them."""
        self.end = chosen_of(ends < 0, self.events, ends).as_format("I")
        """The events that freed them."""
        self.bytes = found["size"][recorded]
        """Requested bytes."""
        self.stack = found["stack"][recorded]
        """Stack numbers."""
        self.curve = vector(self._usage.column)
        """Requested bytes after each event."""
        self.start_bytes = self._usage.start_bytes
        """Requested bytes before the first event."""
        self.peak_bytes = self._usage.peak.bytes
        self.peak = self._usage.peak.event_index - replay.first_event
        """Event of the peak; -1 for the start."""

    def __len__(self) -> int:
        return len(self.start)

    def of(self, way: str, *names: str) -> Vector:
        """Return which rows are in groups with one of these names."""
        return self._named(way, lambda name: name in names)

    def _named(self, way: str, wanted: Callable[[str], bool]) -> Vector:
        dimensions = self._grouper.dimensions
        numbers, known = self._groups(way)
        chosen = [wanted(dimensions.label(self._usage, way, name).text) for name in known]
        return vector(chosen, "?")[numbers]

    def _groups(self, way: str) -> tuple[Vector, list[int]]:
        """Return each row's group index, and the groups' names."""
        if way not in self._found:
            keys = self._grouper.dimensions.keys(self._usage, way)
            numbers = self._numbers(keys)
            self._found[way] = numbers, memoryview(keys.names()).tolist()
        return self._found[way]

    def _numbers(self, keys: Keys) -> Vector:
        return vector(keys.numbers(self.start.as_format("q"), vector([]))[0])

    def of_modules(self, pattern: str) -> Vector:
        """Return which rows were allocated by recorded modules whose names match a pattern."""
        if not self.recorded:
            return zeros(len(self), "?")
        return self._named("module", lambda name: re.search(pattern, name) is not None)

    def in_modules(self) -> Vector:
        """Return which rows are known to be allocated by a module."""
        return self._named("module", lambda name: name not in _IN_NONE)

    def of_same(self, way: str, chosen: Vector) -> Vector:
        """Return which rows are in the same group as any chosen row."""
        numbers, _ = self._groups(way)
        return numbers.is_in(numbers[chosen])

    def forward(self) -> Vector:
        """Return which rows are known to be allocated by a forward pass."""
        if self.recorded:
            return self.of("phase", "forward") & ~self.of("category", *KEPT)
        return self.of("category", "activations", "attention")

    def code(self) -> Vector:
        """Return for each row the flags (SOFTMAX to WORKSPACE) of all frames in its stack."""
        if self._code is None:
            self._code = self._shown()
        return self._code

    def _shown(self) -> Vector:
        replay = self._usage.replay
        of_frames = memoryview(_FRAMES.of_frames(self._grouper.snap.native))
        if not any(of_frames):
            return zeros(len(self))
        keys = _groups.rule_keys(
            replay.native,
            of_frames,
            array("Q", bytes(8 * len(of_frames))),
            0,
            *self._grouper.known.ranks,
        )
        numbers = self._numbers(keys)
        return vector(keys.names()).as_format("B")[numbers]

    def lines(self, chosen: Vector) -> int:
        """Return how many lines of Python code allocated the chosen rows. The C++ code between a
        line and an allocation may vary. A stack without Python frames counts as a line.
        """
        found = set()
        for stack in self.stack[chosen].distinct():
            frames = self._grouper.snap.stack(stack)
            python = [frame for frame in frames if frame.file.endswith(".py")]
            found.add((python[0].file, python[0].line) if python else stack)
        return len(found)

    def age(self) -> Vector:
        """Count, for each row, the allocations made while it was live, including its own."""
        return self.start.places(self.end) - counting(len(self))

    def count_after(self, event: int) -> int:
        """Return the number of rows allocated after an event."""
        return (self.start > event).count()

    def held(self, chosen: Vector, at: int | None = None) -> int:
        """Return the bytes that the chosen rows hold after an event, or at the peak."""
        event = self.peak if at is None else at
        live = chosen & (self.start <= event) & (self.end > event)
        return self.bytes[live].sum()

    def saved(
        self,
        chosen: Vector,
        *,
        after: Vector | None = None,
        part: float = 1.0,
    ) -> int:
        """Return how far the peak falls if the chosen rows lose `part` of their bytes. A row loses
        them from its start on, or from its event in `after` if that's later.
        """
        begin = self.start if after is None else self.start.higher(after)
        chosen = chosen & (begin < self.end)
        change = zeros(self.events + 1)
        weights = self.bytes[chosen].scaled(part)
        change.add_at(begin[chosen], weights)
        change.add_at(self.end[chosen], -weights)
        return self.lowered(change)

    def recomputed(
        self, chosen: Vector, failed: Sequence[int], sizes: Sequence[int], limit: int
    ) -> int:
        """Return how far the peak falls if the chosen rows are recomputed, exactly as `memreplay
        simulate --checkpoint` simulates it (engine/simulate/editing.pyx).

        `failed`, `sizes`: events and bytes of failed requests. A request succeeds, and counts for
        the new peak, if it then fits in `limit` bytes.
        """
        after, until, sizes_moved = self._moved(chosen, failed)
        change = zeros(self.events + 1)
        change.add_at(after, sizes_moved)
        change.add_at(until, -sizes_moved)
        high = 0
        if failed:
            events = vector(failed)
            served = self.curve[events] - change[:-1].sums()[events] + vector(sizes)
            high = served[served <= limit].max(initial=0)
        return max(0, min(self.lowered(change), self.peak_bytes - high))

    def _moved(self, chosen: Vector, failed: Sequence[int]) -> tuple[Vector, Vector, Vector]:
        """Return, for the chosen rows that recomputing frees earlier, the events at which they're
        freed and allocated again, and their bytes.
        """
        rows = chosen.rows()
        freed = self._freed()[rows]
        before = self.start.places(freed)  # rows allocated before each row's free
        # If no row was allocated between the error and the free, the error caused the free.
        last = self.start[before - 1]
        events = vector(failed)
        lost = events.places(freed) > events.places(last)
        again = (freed < self.events) & ~lost
        moved = before >= rows + 2 + again
        after = self.start[(rows + 1).lower(len(self) - 1)] + 1
        until = chosen_of(again, last, self.end[rows])
        return after[moved], until[moved], self.bytes[rows][moved]

    def _freed(self) -> Vector:
        """Return each row's event at which the program freed it. It may end later, if its free
        waits for a stream.
        """
        made, freed = self._usage.replay.measure("held").lifetime_events()
        first = self._usage.replay.first_event
        known = (made >= 0) & (freed >= 0)
        found = self.end.copy()
        found[self.start.places(made[known] - first)] = freed[known] - first
        return found

    def lowered(self, change: Vector) -> int:
        """Return how far the peak falls if usage after each event is lower by the running sum of
        `change` (one value per event, and one for the end).
        """
        high = self.curve.highest_less(change[:-1], max(0, self.start_bytes))
        return max(0, self.peak_bytes - high)

    def largest_place(self, chosen: Vector, among: Vector | None = None) -> Place | None:
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
        return Place(stack, self.bytes[there].sum())


def _largest(numbers: Vector, sizes: Vector) -> int:
    """Return the number whose total size is largest."""
    found, places = numbers.numbered()
    sums = zeros(len(found))
    sums.add_at(places, sizes)
    return found[sums.argmax()]
