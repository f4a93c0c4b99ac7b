"""A slow, obvious model of PyTorch's caching allocators (CUDA, NPU) that you can check by eye.

Programs call `malloc`, `free` and the rest on a `Device`; the `Machine` then dumps the snapshot
that PyTorch would have dumped, along with the truth, which a snapshot doesn't contain: what
`torch.cuda.memory_stats` would have reported after each event. docs/allocator.md says where the
rules come from. Garbage collection and settings that change at run time aren't modelled.
"""

from __future__ import annotations

from tests.allocator_blocks import (
    DEFAULT_POOL,
    LARGE_SEGMENT,
    NPU_ALIGNMENT,
    ROUND_LARGE,
    SMALL_SEGMENT,
    SMALL_SIZE,
    Area,
    Block,
    BlockState,
    Change,
    PoolId,
    Settings,
    Stack,
    round_size,
    segment_size,
    should_split,
)
from tests.allocator_truth import MEASURES, NO_CHANGE, Recorded, Truth, truth_of
from tests.build import START_US, Entry, FrameSpec, Snapshot

CHECKPOINT_STACK: Stack = (
    ("apply_checkpoint_execution_state_in_allocator", "torch/_inductor/cudagraph_trees.py", 2014),
    ("run", "torch/_inductor/cudagraph_trees.py", 2171),
)


Checkpoint = list[tuple[int, list[BlockState]]]  # (area's address, its mapped blocks)


# --------------------------------------------------------------------------------------------------
# The allocator
# --------------------------------------------------------------------------------------------------


class Device:
    """One device's allocator."""

    def __init__(self, settings: Settings, base: int, index: int = 0) -> None:
        self.settings = settings
        self.base = base
        self.index = index
        # free blocks, keyed by pool, and by whether it's the pool of small blocks
        self.areas: dict[tuple[PoolId, bool], list[Area]] = {}
        self.released_pools: set[PoolId] = set()  # released pools, which empty_cache may empty
        self.capturing: PoolId | None = None
        self.deferred: list[Block] = []  # blocks that other streams used, freed in a capture
        self.events: dict[int, list[Block]] = {}  # by stream: blocks waiting for it, in order
        self.finished: dict[int, int] = {}  # by stream: how many of these frees are complete
        self.reserved = 0
        self.history: list[Recorded] = []  # all events, whether PyTorch recorded them or not
        self.recording_from = 0
        self.now_us = START_US
        self.frame_dicts: dict[FrameSpec, Entry] = {}

    # The user's side

    def malloc(self, requested: int, stream: int = 0, stack: Stack = ()) -> Block | None:
        """Allocate this many bytes; return None and record an `oom` event if they aren't
        available.
        """
        if self.capturing is None:
            self.process_events(stack)
        size = round_size(requested, self.settings)
        key = self.capturing or DEFAULT_POOL, size <= SMALL_SIZE
        block = self.best_fit(key, stream, size) or self.new_block(key, stream, size, stack)
        if block is None and self.release_oversize(key, stream, size, stack):
            block = self.new_block(key, stream, size, stack)
        if block is None and self.capturing is None:
            self.empty_cache(stack)
            block = self.new_block(key, stream, size, stack)
        if block is None:
            self.record("oom", None, size, stream, key[0], stack=stack)
            return None
        block = self.aligned(block, size)
        split = should_split(block.size, size, key[1], self.settings)
        return self.hand_out(block, size, requested, split, stack)

    def free(self, block: Block, stack: Stack | None = None) -> None:
        """Free a block. If no stack is given, the event gets the alloc's stack."""
        block.allocated = False
        self.record_block("free_requested", block, (0, -1, 0, -1), stack)
        if not block.stream_uses:
            self.complete(block, stack)
        elif self.capturing is not None:
            self.deferred.append(block)
        else:
            self.wait_for_streams(block)

    def record_stream(self, block: Block, stream: int) -> None:
        """Use the block on another stream; its free then waits for that stream."""
        if stream != block.area.stream:
            block.stream_uses.add(stream)
            if self.capturing is not None:
                block.capture_uses.add(stream)

    def finish_stream(self, stream: int) -> None:
        """Finish all work of the stream. The next malloc notices."""
        self.finished[stream] = len(self.events.get(stream, ()))

    def begin_pool(self, pool: PoolId) -> None:
        """Allocate from this private pool from now on (for a capture or a MemPool)."""
        self.capturing = pool
        self.released_pools.discard(pool)

    def end_pool(self) -> None:
        self.capturing = None

    def release_pool(self, pool: PoolId) -> None:
        """Release the pool's graph or MemPool, so empty_cache may free the pool's free blocks."""
        self.released_pools.add(pool)

    def empty_cache(self, stack: Stack = ()) -> None:
        """Wait for all streams, then release unsplit segments and whole free handles."""
        if self.capturing is not None:
            raise ValueError("empty_cache during a capture")
        self.record_deferred(stack)
        for stream in list(self.events):
            self.finish_stream(stream)
        self.process_events(stack)
        for small in (False, True):
            self.release_cached((DEFAULT_POOL, small), stack)
        for pool in sorted(self.released_pools):
            for small in (True, False):
                self.release_cached((pool, small), stack)

    def checkpoint(self, pool: PoolId) -> Checkpoint:
        """Return what set_checkpoint needs to restore a private pool to its current state."""
        self.record_deferred(())
        found = []
        for area in self.pool_areas(pool):
            mapped = [block for block in area.blocks if block.mapped]
            found.append((area.addr, [BlockState(one.size, one.allocated) for one in mapped]))
        return found

    def set_checkpoint(self, pool: PoolId, checkpoint: Checkpoint) -> list[Block]:
        """Free the pool's blocks, allocate all of the checkpoint's blocks, then free the blocks
        that were free in the checkpoint.
        """
        areas = {area.addr: area for area in self.pool_areas(pool)}
        for area in areas.values():
            for block in list(area.blocks):
                if block.allocated:
                    self.free(block, CHECKPOINT_STACK)
        created = []
        for addr, states in checkpoint:
            area, blocks = areas[addr], []
            for state in states:
                block = self.block_at(area, addr)
                split = block.size > state.size
                self.hand_out(block, state.size, state.size, split, CHECKPOINT_STACK)
                blocks.append(block)
                addr += state.size
            for state, block in zip(states, blocks, strict=True):
                if state.allocated:
                    created.append(block)
                else:
                    self.free(block, CHECKPOINT_STACK)
        return created

    def can_checkpoint(self, pool: PoolId) -> bool:
        """Return whether no free is pending in the pool. Otherwise PyTorch can't take a
        checkpoint.
        """
        blocks = [block for area in self.pool_areas(pool) for block in area.blocks]
        return not any(block.event_count or block.stream_uses for block in blocks)

    def has_areas_of(self, pool: PoolId, checkpoint: Checkpoint) -> bool:
        """Return whether the checkpoint's segments still exist. PyTorch can't restore the
        checkpoint if a segment was freed (`release_oversize`).
        """
        sizes = {a.addr: sum(b.size for b in a.blocks if b.mapped) for a in self.pool_areas(pool)}
        wanted = {addr: sum(state.size for state in states) for addr, states in checkpoint}
        return all(sizes.get(addr) == size for addr, size in wanted.items())

    # Finding memory

    def best_fit(self, key: tuple[PoolId, bool], stream: int, size: int) -> Block | None:
        """Return the smallest free block that is large enough; the lowest if several are equally
        small.
        """
        fitting = [
            block
            for area in self.areas.get(key, ())
            if area.stream == stream
            for block in area.blocks
            if block.size >= size and block.free
        ]
        if not fitting:
            return None
        fitting.sort(key=lambda block: (block.size, block.addr))
        best = fitting[0]
        for block in fitting[1:]:  # a growable block counts at its full size
            if not best.area.expandable or expandable_size(block) >= expandable_size(best):
                break
            best = block
        limit = self.settings.max_split_size
        if limit is not None:
            if size < limit <= best.size:
                return None  # oversize blocks only serve oversize requests
            if size >= limit and best.size >= size + LARGE_SEGMENT:
                return None  # and only if little would be wasted
        return best

    def new_block(
        self, key: tuple[PoolId, bool], stream: int, size: int, stack: Stack
    ) -> Block | None:
        """Get memory from the driver and return a free block that is large enough."""
        if self.settings.expandable_segments:
            return self.expand(key, stream, size, stack)
        total = segment_size(size)
        if self.reserved + total > self.settings.capacity:
            return None
        area = self.new_area(total, key, stream, False)
        area.stack = stack
        self.record_segment("segment_alloc", area, area.addr, total, stack)
        return area.blocks[0]

    def aligned(self, block: Block, size: int) -> Block:
        """Return the part of a free block that a request gets. If the request is large and still
        fits, torch_npu leaves the bytes before the first aligned address free.
        """
        if not self.settings.npu or not self.settings.expandable_segments or size < ROUND_LARGE:
            return block
        before = -block.addr % NPU_ALIGNMENT
        if before == 0 or before + size > block.size:
            return block
        return block.area.cut(block, before)

    def expand(
        self, key: tuple[PoolId, bool], stream: int, size: int, stack: Stack
    ) -> Block | None:
        """Map memory at the lowest address where free and unmapped blocks together are large
        enough.
        """
        block = self.lowest_expandable(key, stream, size)
        if not block.mapped and not self.map(block, min(block.size, size), stack):
            return None
        while block.size < size:
            following = block.area.after(block)
            assert following is not None
            assert not following.mapped
            if not self.map(following, min(size - block.size, following.size), stack):
                return None
            block = following  # merging has swallowed the free block before this one
        return block

    def lowest_expandable(self, key: tuple[PoolId, bool], stream: int, size: int) -> Block:
        mine = [area for area in self.areas.get(key, ()) if area.stream == stream]
        for area in sorted(mine, key=lambda area: area.addr):
            for at, block in enumerate(area.blocks):
                if block.mapped:
                    continue
                first = at - 1 if at > 0 and not area.blocks[at - 1].in_use else at
                room = 0
                for one in area.blocks[first:]:
                    if one.in_use:
                        break
                    room += one.size
                if room >= size:
                    return area.blocks[first]
        handle = SMALL_SEGMENT if key[1] else LARGE_SEGMENT
        space = self.settings.capacity + self.settings.capacity // 8
        area = self.new_area(-(-space // handle) * handle, key, stream, True)
        area.blocks[0].mapped = False
        return area.blocks[0]

    def map(self, block: Block, size: int, stack: Stack) -> bool:
        """Map whole handles at the start of an unmapped block; return False if the device is
        full.
        """
        area = block.area
        size = -(-size // area.handle) * area.handle
        if self.reserved + size > self.settings.capacity:
            return False
        if size < block.size:
            area.cut(block, size)
        addr = block.addr
        block.mapped = True
        area.merge(block)
        self.record_segment("segment_map", area, addr, size, stack)
        return True

    def new_area(self, size: int, key: tuple[PoolId, bool], stream: int, expandable: bool) -> Area:
        """Reserve address space in the lowest gap that fits, as drivers tend to do."""
        addr = self.base
        for other in sorted(self.all_areas(), key=lambda area: area.addr):
            if addr + size <= other.addr:
                break
            addr = other.addr + -(-other.size // ROUND_LARGE) * ROUND_LARGE
        area = Area(addr, size, *key, stream, expandable)
        area.blocks.append(Block(area, addr, size))
        self.areas.setdefault(key, []).append(area)
        return area

    def hand_out(self, block: Block, size: int, requested: int, split: bool, stack: Stack) -> Block:
        """Make a free block live: the whole block, or only its start if it should be split."""
        if split:
            block.area.cut(block, size)
        block.allocated = True
        block.requested = requested
        block.stack = stack
        self.record_block("alloc", block, (1, 1, 1, 1), stack)
        return block

    # Releasing memory

    def complete(self, block: Block, stack: Stack | None) -> None:
        """Free the block, and merge it with free neighbours."""
        self.record_block("free_completed", block, (-1, 0, -1, 0), stack)
        block.stack = ()
        block.area.merge(block)

    def wait_for_streams(self, block: Block) -> None:
        for stream in sorted(block.stream_uses):
            self.events.setdefault(stream, []).append(block)
            block.event_count += 1
        block.stream_uses.clear()

    def record_deferred(self, stack: Stack) -> None:
        """After a capture, make the frees that it deferred wait for the other streams that used the
        blocks.
        """
        for block in self.deferred:
            block.stream_uses -= block.capture_uses
            block.capture_uses.clear()
            self.wait_for_streams(block)
            if block.event_count == 0:
                self.complete(block, stack)
        self.deferred.clear()

    def process_events(self, stack: Stack) -> None:
        """Complete the frees whose streams have finished."""
        self.record_deferred(stack)
        for stream, waiting in self.events.items():
            for _ in range(self.finished.pop(stream, 0)):
                block = waiting.pop(0)
                block.event_count -= 1
                if block.event_count == 0:
                    self.complete(block, stack)

    def release_oversize(
        self, key: tuple[PoolId, bool], stream: int, size: int, stack: Stack
    ) -> bool:
        """Free one oversize block if one is large enough, otherwise the largest ones until their
        total is large enough.
        """
        limit = self.settings.max_split_size
        if limit is None:
            return False
        wanted = max(size, limit)
        mine = [area for area in self.areas.get(key, ()) if area.stream == stream]
        oversize = [area for area in mine if area.size >= limit and area.blocks[0].free]
        oversize = [area for area in oversize if len(area.blocks) == 1]
        oversize.sort(key=lambda area: (area.size, area.addr))
        for area in oversize:
            if area.size >= wanted:
                self.free_segment(area, stack)
                return True
        released = 0
        while oversize and released < wanted:
            released += oversize[-1].size
            self.free_segment(oversize.pop(), stack)
        return released >= wanted

    def release_cached(self, key: tuple[PoolId, bool], stack: Stack) -> None:
        """Free unsplit segments, and unmap whole handles in free blocks."""
        free = [b for area in self.areas.get(key, ()) for b in area.blocks if b.free]
        free.sort(key=lambda block: (block.area.stream, block.size, block.addr))
        for block in free:
            if not block.area.expandable and len(block.area.blocks) == 1:
                self.free_segment(block.area, stack)
        for block in free:
            if block.area.expandable:
                self.unmap(block, stack)

    def free_segment(self, area: Area, stack: Stack) -> None:
        self.record_segment("segment_free", area, area.addr, area.size, stack)
        self.areas[area.pool, area.small].remove(area)

    def unmap(self, block: Block, stack: Stack) -> None:
        """Unmap the whole handles inside a free block; the remainders at its ends stay mapped."""
        area = block.area
        first = area.addr + -(-(block.addr - area.addr) // area.handle) * area.handle
        end = area.addr + (block.addr + block.size - area.addr) // area.handle * area.handle
        if first >= end:
            return
        if block.addr < first:
            block = area.cut(block, first - block.addr)
        if end < block.addr + block.size:
            area.cut(block, end - block.addr)
        block.mapped = False
        block.requested = 0
        area.merge(block)
        self.record_segment("segment_unmap", area, first, end - first, stack)
        if block.size == area.size:
            self.areas[area.pool, area.small].remove(area)

    # Queries

    def all_areas(self) -> list[Area]:
        return [area for areas in self.areas.values() for area in areas]

    def pool_areas(self, pool: PoolId) -> list[Area]:
        return [area for small in (True, False) for area in self.areas.get((pool, small), ())]

    def live_blocks(self) -> list[Block]:
        return [block for area in self.all_areas() for block in area.blocks if block.allocated]

    @staticmethod
    def block_at(area: Area, addr: int) -> Block:
        return next(block for block in area.blocks if block.addr == addr)

    def segments(self) -> list[Entry]:
        """Return a snapshot's segments: one per contiguous mapped range, by address."""
        ranges = [blocks for area in self.all_areas() for blocks in area.mapped_ranges()]
        return [self.segment(blocks) for blocks in sorted(ranges, key=lambda b: b[0].addr)]

    def segment(self, blocks: list[Block]) -> Entry:
        area = blocks[0].area
        active = [block for block in blocks if block.in_use]
        return {
            "device": self.index,
            "address": blocks[0].addr,
            "total_size": sum(block.size for block in blocks),
            "allocated_size": sum(block.size for block in active if block.allocated),
            "active_size": sum(block.size for block in active),
            "requested_size": sum(block.requested for block in active),
            "stream": area.stream,
            "segment_type": "small" if area.small else "large",
            "segment_pool_id": area.pool,
            "is_expandable": area.expandable,
            "frames": self.frames(area.stack),
            "blocks": [
                {
                    "address": block.addr,
                    "size": block.size,
                    "requested_size": block.requested,
                    "state": block.state,
                    "frames": self.frames(block.stack),
                }
                for block in blocks
            ],
        }

    # Recording

    def begin_recording(self) -> None:
        """Record events from now on; older memory has no stack."""
        self.recording_from = len(self.history)
        for area in self.all_areas():
            area.stack = ()
            for block in area.blocks:
                block.stack = ()

    def record_block(
        self, action: str, block: Block, signs: tuple[int, int, int, int], stack: Stack | None
    ) -> None:
        """Record an alloc or free, with its effect on all measures except reserved."""
        sizes = block.requested, block.requested, block.size, block.size
        change = (*(sign * size for sign, size in zip(signs, sizes, strict=True)), 0)
        self.record(
            *(action, block.addr, block.requested, block.area.stream, block.area.pool),
            change=change,  # type: ignore[arg-type]
            block_size=block.size,
            stack=block.stack if stack is None else stack,
        )

    def record_segment(self, action: str, area: Area, addr: int, size: int, stack: Stack) -> None:
        more = size if action in ("segment_alloc", "segment_map") else -size
        self.reserved += more
        change = (0, 0, 0, 0, more)
        self.record(action, addr, size, area.stream, area.pool, change=change, stack=stack)

    def record_snapshot(self) -> None:
        """Record the event that taking a snapshot adds: the total of active bytes."""
        active = sum(one.change[MEASURES.index("active")] for one in self.history)
        self.record("snapshot", 0, active, 0, DEFAULT_POOL)

    def record(
        self,
        action: str,
        addr: int | None,
        size: int,
        stream: int,
        pool: PoolId,
        *,
        change: Change = NO_CHANGE,
        block_size: int = 0,
        stack: Stack = (),
    ) -> None:
        event: Entry = {"action": action}
        if addr is None:
            event["device_free"] = self.settings.capacity - self.reserved
        else:
            event["addr"] = addr
        event["size"] = size
        event["stream"] = stream
        # A free_completed has the same timestamp as its free_requested.
        self.now_us += action != "free_completed"
        event["time_us"] = self.now_us
        event["pool_id"] = pool
        if stack:
            event["frames"] = self.frames(stack)
        self.history.append(Recorded(event, change, pool, stream, block_size))

    def frames(self, stack: Stack) -> list[Entry]:
        for spec in stack:
            if spec not in self.frame_dicts:
                name, filename, line = spec
                self.frame_dicts[spec] = {"filename": filename, "line": line, "name": name}
        return [self.frame_dicts[spec] for spec in stack]


def expandable_size(block: Block) -> int:
    """Return the size to which a free block can grow."""
    following = block.area.after(block)
    return block.size + (following.size if following is not None and not following.mapped else 0)


class Machine:
    """The devices of one process, and their dump."""

    def __init__(self, settings: Settings | None = None, devices: int = 1) -> None:
        self.settings = settings or Settings()
        # Each device has its own addresses, as in a real process, but no rule depends on it.
        self.devices = [
            Device(self.settings, 0x7F00_0000_0000 + index * 2**42, index)
            for index in range(devices)
        ]

    def begin_recording(self) -> None:
        for device in self.devices:
            device.begin_recording()

    def dump(
        self, max_entries: int | None = None, event_pools: bool = True
    ) -> tuple[Snapshot, list[Truth]]:
        """Return the snapshot and each device's truth.

        `max_entries` is the ring buffer's length; only the last events are kept. Without
        `event_pools`, events don't name their pool, as in PyTorch before about 2.9.
        """
        traces: list[list[Entry]] = []
        segments: list[Entry] = []
        truths: list[Truth] = []
        for device in self.devices:
            first = device.recording_from
            if max_entries is not None:
                first = max(first, len(device.history) - max_entries)
            truths.append(truth_of(device.history, first))
            truths[-1].dropped = first - device.recording_from
            trace = [one.event for one in truths[-1].recorded]
            if not event_pools:
                trace = [{k: v for k, v in event.items() if k != "pool_id"} for event in trace]
            traces.append(trace)
            segments += device.segments()
            device.record_snapshot()
        snapshot = {
            "segments": segments,
            "device_traces": traces,
            "allocator_settings": self.settings.to_dict(),
        }
        return snapshot, truths
