"""Simulate PyTorch's caching allocator: segments, best fit, splitting, merging, delayed frees.

The rules are those of the CUDA caching allocator with its default settings. Requests are rounded up
to 512 bytes. Requests up to 1 MiB are served from 2 MiB segments, requests below 10 MiB from 20 MiB
segments, and larger requests from segments of their own size, rounded up to 2 MiB. A block is split
if at least 512 bytes (small) or more than 1 MiB (large) would remain. A stream's blocks never serve
another stream.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Protocol

KIB, MIB = 1 << 10, 1 << 20
ROUND = 512
SMALL_LIMIT = 1 * MIB
SMALL_SEGMENT = 2 * MIB
LARGE_LIMIT = 10 * MIB
LARGE_SEGMENT = 20 * MIB
ADDRESS_BITS = 47
ADDRESS_MASK = (1 << ADDRESS_BITS) - 1

FREE, LIVE, PENDING = range(3)
NO_CONTEXT = -1


class Recorder(Protocol):
    """The allocator's callbacks. `context` is a collected call stack."""

    def new_context(self) -> int: ...

    def record(
        self, action: int, address: int, size: int, stream: int, stack: int, context: int
    ) -> None: ...


ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE = range(5)


class Segment:
    """The memory of one cudaMalloc, covered without gaps by a chain of blocks."""

    __slots__ = ("address", "context", "first", "large", "size", "stack", "stream")

    def __init__(self, address: int, size: int, large: bool, stream: int) -> None:
        self.address = address
        self.size = size
        self.large = large
        self.stream = stream
        self.stack = -1
        self.context = NO_CONTEXT
        self.first = Block(address, size, self)


class Block:
    """A part of a segment. A free block keeps the `requested` of its last use, as in PyTorch."""

    __slots__ = (
        *("address", "size", "requested", "state", "segment", "prev", "next"),
        *("stack", "context"),
    )

    def __init__(self, address: int, size: int, segment: Segment) -> None:
        self.address = address
        self.size = size
        self.segment = segment
        self.requested = 0
        self.state = FREE
        self.stack = -1
        self.context = NO_CONTEXT
        self.prev: Block | None = None
        self.next: Block | None = None


class Allocator:
    """One device's allocator."""

    def __init__(self, recorder: Recorder, base: int) -> None:
        self._recorder = recorder
        self._next_segment = base
        self.segments: dict[int, Segment] = {}
        # Maps (large, stream) to a sorted list of size << 47 | address, so that one bisection finds
        # the best fit.
        self._pools: dict[tuple[bool, int], list[int]] = {}
        self._free_at: dict[int, Block] = {}
        self._pending: deque[tuple[int, Block, int, int]] = deque()
        self._operations = 0
        # The driver reuses returned ranges for requests of the same size.
        self._unmapped: dict[int, list[int]] = {}

    # -- methods that the program calls

    def malloc(self, requested: int, stream: int, stack: int) -> Block:
        """Allocate a block of at least `requested` bytes."""
        self._operations += 1
        if self._pending:
            self._complete_due()
        size = (requested + ROUND - 1) & -ROUND or ROUND
        large = size > SMALL_LIMIT
        context = self._recorder.new_context()
        pool = self._pools.get((large, stream))
        if pool is None:
            pool = self._pools[large, stream] = []
        at = bisect_left(pool, size << ADDRESS_BITS)
        if at < len(pool):
            block = self._free_at.pop(pool.pop(at) & ADDRESS_MASK)
        else:
            block = self._new_segment(size, large, stream, stack, context)
        rest = block.size - size
        if rest > SMALL_LIMIT if large else rest >= ROUND:
            self._split(block, size, pool)
        block.requested = requested
        block.state = LIVE
        block.stack = stack
        block.context = context
        self._recorder.record(ALLOC, block.address, requested, stream, stack, context)
        return block

    def free(self, block: Block, stack: int) -> None:
        """Free a block on its own stream, so the request completes at once."""
        stream = block.segment.stream
        recorder = self._recorder
        context = recorder.new_context()
        address, requested = block.address, block.requested
        recorder.record(FREE_REQUESTED, address, requested, stream, stack, context)
        recorder.record(FREE_COMPLETED, address, requested, stream, stack, context)
        self._release(block)

    def free_after(self, block: Block, stack: int, operations: int) -> None:
        """Free a block that another stream still uses (record_stream), so the request completes
        later.
        """
        stream = block.segment.stream
        context = self._recorder.new_context()
        self._recorder.record(
            FREE_REQUESTED, block.address, block.requested, stream, stack, context
        )
        block.state = PENDING
        self._pending.append((self._operations + operations, block, stack, context))

    def empty_cache(self, stack: int) -> None:
        """Return completely free segments to the driver."""
        self.complete_all()
        context = self._recorder.new_context()
        for address in sorted(self.segments):
            segment = self.segments[address]
            block = segment.first
            if block.state != FREE or block.next is not None:
                continue
            self._take_from_pool(block)
            del self.segments[address]
            self._unmapped.setdefault(segment.size, []).append(address)
            self._recorder.record(
                SEGMENT_FREE, address, segment.size, segment.stream, stack, context
            )

    def complete_all(self) -> None:
        """Complete every delayed free."""
        while self._pending:
            self._complete_first()

    # -- internals

    def _complete_due(self) -> None:
        while self._pending and self._pending[0][0] <= self._operations:
            self._complete_first()

    def _complete_first(self) -> None:
        _, block, stack, context = self._pending.popleft()
        self._recorder.record(
            FREE_COMPLETED, block.address, block.requested, block.segment.stream, stack, context
        )
        self._release(block)

    def _new_segment(self, size: int, large: bool, stream: int, stack: int, context: int) -> Block:
        if not large:
            total = SMALL_SEGMENT
        elif size < LARGE_LIMIT:
            total = LARGE_SEGMENT
        else:
            total = (size + SMALL_SEGMENT - 1) & -SMALL_SEGMENT
        address = self._map(total)
        segment = self.segments[address] = Segment(address, total, large, stream)
        segment.stack = stack
        segment.context = context
        self._recorder.record(SEGMENT_ALLOC, address, total, stream, stack, context)
        return segment.first

    def _map(self, total: int) -> int:
        reusable = self._unmapped.get(total)
        if reusable:
            return reusable.pop()
        address = self._next_segment
        # Like the driver, leave a hole after every few segments.
        hole = SMALL_SEGMENT * (1 + len(self.segments) % 7) if len(self.segments) % 5 == 4 else 0
        self._next_segment += total + hole
        return address

    def _split(self, block: Block, size: int, pool: list[int]) -> None:
        rest = Block(block.address + size, block.size - size, block.segment)
        rest.requested = block.requested
        rest.prev, rest.next = block, block.next
        if block.next is not None:
            block.next.prev = rest
        block.next = rest
        block.size = size
        self._free_at[rest.address] = rest
        insort(pool, rest.size << ADDRESS_BITS | rest.address)

    def _release(self, block: Block) -> None:
        block.state = FREE
        block.context = NO_CONTEXT
        before, after = block.prev, block.next
        if before is not None and before.state == FREE:
            self._take_from_pool(before)
            before.size += block.size
            before.next = after
            if after is not None:
                after.prev = before
            block = before
        if after is not None and after.state == FREE:
            self._take_from_pool(after)
            block.size += after.size
            block.next = after.next
            if after.next is not None:
                after.next.prev = block
        self._free_at[block.address] = block
        segment = block.segment
        pool = self._pools[segment.large, segment.stream]
        insort(pool, block.size << ADDRESS_BITS | block.address)

    def _take_from_pool(self, block: Block) -> None:
        pool = self._pools[block.segment.large, block.segment.stream]
        del pool[bisect_left(pool, block.size << ADDRESS_BITS | block.address)]
        del self._free_at[block.address]
