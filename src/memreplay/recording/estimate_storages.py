"""Turn fake tensors' storages into blocks and events like those of PyTorch's allocator.

Each block gets its own segment, because the allocator's real segments are unknown.
"""

from __future__ import annotations

import functools
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from memreplay.engine.record import _tracker
from memreplay.recording.guarding import Guard
from memreplay.recording.tensors import Addresses

# Where a storage would be on a machine with a GPU.
HOST, CARD = 0, 1
# The first made-up address in each place. Sizes are rounded as in PyTorch's allocator.
FIRST = {HOST: 1 << 45, CARD: 1 << 46}
UNIT = 512


class Block:
    """A live storage."""

    __slots__ = ("address", "live", "place", "ref", "rounded", "says", "size", "stack")

    def __init__(self, address: int, size: int, place: int, stack: list[dict[str, Any]]) -> None:
        self.address, self.size, self.place, self.stack = address, size, place, stack
        self.rounded = -(-size // UNIT) * UNIT
        self.says = size  # size according to the storage
        self.live = True  # False once its memory is freed, even if the storage object still exists
        self.ref: Callable[[], Any] | None = None


class Storages:
    """All storages seen, their current state and their events."""

    def __init__(self, unseen: tuple[str, ...]) -> None:
        self.events: dict[int, list[dict[str, Any]]] = {HOST: [], CARD: []}
        self.blocks: dict[int, Block] = {}  # by id; an entry is removed together with its storage
        self.free: dict[tuple[int, int], list[int]] = {}  # free addresses by place and size
        self.next = dict(FIRST)
        self.on = True
        self.stacks = Stacks(unseen)

    def known(self, storage: Any) -> Block | None:
        """Return a storage's block, or None if it wasn't seen."""
        block = self.blocks.get(id(storage))
        if block is None or block.ref is None or block.ref() is not storage:
            return None
        return block

    def see(self, storage: Any, place: int, least: int = 0) -> None:
        """Note a storage: allocate a new one with at least `least` bytes, reallocate one that was
        resized.
        """
        size = storage.nbytes()
        block = self.known(storage)
        if block is not None:
            if block.says == size:
                return
            place = block.place
            self.let_go(block)
        if not size and block is not None:
            block.says = 0
        elif size:
            block = self.take(max(size, least), place)
            block.says = size
            block.ref = weakref.ref(storage, functools.partial(self.end, id(storage), block))
            self.blocks[id(storage)] = block

    def pass_by(self, size: int, place: int) -> None:
        """Allocate memory and free it at once."""
        self.let_go(self.take(size, place))

    def take(self, size: int, place: int) -> Block:
        rounded = -(-size // UNIT) * UNIT
        free = self.free.get((place, rounded))
        if free:
            address = free.pop()
        else:
            address = self.next[place]
            self.next[place] += rounded
        block = Block(address, size, place, self.stacks.now())
        self.event("segment_alloc", block, block.stack)
        self.event("alloc", block, block.stack)
        _tracker.track_alloc(address)
        return block

    def end(self, key: int, block: Block, _: object) -> None:
        """Free a storage that was destroyed."""
        if not self.on or self.blocks.get(key) is not block:
            return
        del self.blocks[key]
        self.let_go(block)

    def let_go(self, block: Block) -> None:
        if not block.live:
            return
        block.live = False
        self.free.setdefault((block.place, block.rounded), []).append(block.address)
        stack = self.stacks.now()
        _tracker.track_free(block.address)
        self.event("free_requested", block, stack)
        self.event("free_completed", block, stack)
        self.event("segment_free", block, stack)

    def event(self, action: str, block: Block, stack: list[dict[str, Any]]) -> None:
        self.events[block.place].append(
            {
                "action": action,
                "addr": block.address,
                "size": block.rounded if action.startswith("segment") else block.size,
                "stream": 0,
                "time_us": time.time_ns() // 1000,
                "frames": stack,
            }
        )

    def place(self) -> int:
        """The place to report: the GPU if the program used one, otherwise the host."""
        return CARD if self.events[CARD] else HOST

    def segments(self, place: int) -> list[dict[str, Any]]:
        """Return the live blocks as segments."""
        return [
            {
                "device": 0,
                "address": block.address,
                "total_size": block.rounded,
                "allocated_size": block.rounded,
                "active_size": block.rounded,
                "requested_size": block.size,
                "stream": 0,
                "segment_type": "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": [
                    {
                        "address": block.address,
                        "size": block.rounded,
                        "requested_size": block.size,
                        "state": "active_allocated",
                        "frames": block.stack,
                    }
                ],
            }
            for block in sorted(self.blocks.values(), key=lambda one: one.address)
            if block.live and block.place == place
        ]


class Stacks:
    """Python stacks in PyTorch's form, innermost frame first, each stored once."""

    def __init__(self, unseen: tuple[str, ...]) -> None:
        self.unseen = unseen  # files and folders that run only for the estimate
        self.left_out: dict[CodeType, bool] = {}
        self.frames: dict[tuple[CodeType, int], dict[str, Any]] = {}
        self.stacks: dict[tuple[int, ...], list[dict[str, Any]]] = {}

    def now(self) -> list[dict[str, Any]]:
        found = list(self.walk(sys._getframe(1)))
        return self.stacks.setdefault(tuple(map(id, found)), found)

    def walk(self, frame: FrameType | None) -> Iterator[dict[str, Any]]:
        while frame is not None:
            code, line = frame.f_code, frame.f_lineno
            out = self.left_out.get(code)
            if out is None:
                out = self.left_out[code] = code.co_filename.startswith(self.unseen)
            if not out:
                known = self.frames.get((code, line))
                if known is None:
                    known = self.frames[code, line] = {
                        "name": code.co_name,
                        "filename": code.co_filename,
                        "line": line,
                    }
                yield known
            frame = frame.f_back


class FakeAddresses(Addresses):
    """Fake tensors' made-up addresses."""

    without_memory = ()  # in this mode, fake tensors count as memory

    def __init__(self, torch: Any, storages: Storages, guard: Guard) -> None:
        super().__init__(torch, "cpu", guard)
        self.storages = storages

    def there(self) -> Iterator[int]:
        """Yield nothing, because real tensors don't count here."""
        return iter(())

    def of(self, tensor: Any) -> list[int]:
        block = self.storages.known(tensor.untyped_storage())
        return [block.address] if block is not None and block.live else []
