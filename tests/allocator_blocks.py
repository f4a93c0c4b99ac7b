"""Sizes, blocks and segments of the model of PyTorch's allocator (allocator.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.build import Entry, FrameSpec

KIB, MIB, GIB = 2**10, 2**20, 2**30
MIN_BLOCK = 512
SMALL_SIZE = 1 * MIB  # the largest request of the small pool
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
LARGE_REQUEST = 10 * MIB  # larger requests get a segment of their own
ROUND_LARGE = 2 * MIB
NPU_PADDING = 32  # bytes that torch_npu adds to each request
NPU_ALIGNMENT = 16 * KIB  # torch_npu's alignment of large blocks in expandable segments
INTERVALS = 16  # intervals of roundup_power2_divisions: from 1 MiB, 2 MiB, ..., 32 GiB

PoolId = tuple[int, int]
Stack = tuple[FrameSpec, ...]  # innermost first
Change = tuple[int, int, int, int, int]  # one number per entry in MEASURES

DEFAULT_POOL: PoolId = (0, 0)


@dataclass(frozen=True)
class Settings:
    """PYTORCH_CUDA_ALLOC_CONF's options, the device's size, and whether it's an NPU."""

    roundup_power2_divisions: tuple[int, ...] = (0,) * INTERVALS
    max_split_size: int | None = None  # None: no limit
    expandable_segments: bool = False
    capacity: int = 80 * GIB
    npu: bool = False

    def to_dict(self) -> Entry:
        """Return the `allocator_settings` of a snapshot."""
        divisions = self.roundup_power2_divisions
        return {
            "PYTORCH_NPU_ALLOC_CONF" if self.npu else "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1 if self.max_split_size is None else self.max_split_size,
            "garbage_collection_threshold": 0.0,
            "expandable_segments": self.expandable_segments,
            "pinned_num_register_threads": 1,
            "release_lock_on_cudamalloc": False,
            "pinned_use_cuda_host_register": False,
            "roundup_power2_divisions": {str(2**i): divisions[i] for i in range(INTERVALS)},
        }


# --------------------------------------------------------------------------------------------------
# Sizes
# --------------------------------------------------------------------------------------------------


def round_size(size: int, settings: Settings) -> int:
    """Return the block size for a request."""
    size += NPU_PADDING if settings.npu else 0
    if size < MIN_BLOCK:
        return MIN_BLOCK
    power = size.bit_length() - 1  # 2**power <= size
    interval = min(max(power - 20, 0), INTERVALS - 1)
    divisions = settings.roundup_power2_divisions[interval]
    if divisions > 1 and size > MIN_BLOCK * divisions:
        step = 1 << power >> (divisions.bit_length() - 1)
        return -(-size // step) * step
    return -(-size // MIN_BLOCK) * MIN_BLOCK


def segment_size(size: int) -> int:
    """Return the segment size requested from the driver for a block of this size."""
    if size <= SMALL_SIZE:
        return SMALL_SEGMENT
    if size < LARGE_REQUEST:
        return LARGE_SEGMENT
    return -(-size // ROUND_LARGE) * ROUND_LARGE


def should_split(block_size: int, size: int, small: bool, settings: Settings) -> bool:
    """Return whether the remainder of a free block becomes a separate free block."""
    rest = block_size - size
    if small or settings.expandable_segments:
        return rest >= MIN_BLOCK
    fits = settings.max_split_size is None or size < settings.max_split_size
    return fits and rest > SMALL_SIZE


# --------------------------------------------------------------------------------------------------
# Memory
# --------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Block:
    """A block in an area. `requested` is stale in a free block, as in PyTorch."""

    area: Area
    addr: int
    size: int
    requested: int = 0
    allocated: bool = False
    mapped: bool = True
    stream_uses: set[int] = field(default_factory=set)
    capture_uses: set[int] = field(default_factory=set)  # streams that used it in a capture
    event_count: int = 0  # streams that must finish before the block's free completes
    stack: Stack = ()

    @property
    def in_use(self) -> bool:
        return self.allocated or self.event_count > 0 or bool(self.stream_uses)

    @property
    def free(self) -> bool:
        return self.mapped and not self.in_use

    @property
    def state(self) -> str:
        if self.allocated:
            return "active_allocated"
        return "active_pending_free" if self.in_use else "inactive"


@dataclass(eq=False)
class Area:
    """One cudaMalloc, or the address space of one expandable segment. Its blocks tile it."""

    addr: int
    size: int
    pool: PoolId
    small: bool
    stream: int
    expandable: bool
    blocks: list[Block] = field(default_factory=list)
    stack: Stack = ()

    @property
    def handle(self) -> int:
        """Return the unit in which an expandable segment is mapped."""
        return SMALL_SEGMENT if self.small else LARGE_SEGMENT

    def before(self, block: Block) -> Block | None:
        at = self.blocks.index(block)
        return self.blocks[at - 1] if at > 0 else None

    def after(self, block: Block) -> Block | None:
        at = self.blocks.index(block)
        return self.blocks[at + 1] if at + 1 < len(self.blocks) else None

    def cut(self, block: Block, size: int) -> Block:
        """Shrink `block` to `size` bytes and return a new block with the rest."""
        rest = Block(self, block.addr + size, block.size - size, block.requested)
        rest.mapped = block.mapped
        block.size = size
        self.blocks.insert(self.blocks.index(block) + 1, rest)
        return rest

    def merge(self, block: Block) -> None:
        """Merge a free block with neighbours that are free and mapped as well."""
        for other in (self.before(block), self.after(block)):
            if other is not None and not other.in_use and other.mapped == block.mapped:
                block.addr = min(block.addr, other.addr)
                block.size += other.size
                self.blocks.remove(other)

    def mapped_ranges(self) -> Iterator[list[Block]]:
        """Return the blocks of each contiguous mapped range."""
        found: list[Block] = []
        for block in self.blocks:
            if block.mapped:
                found.append(block)
            elif found:
                yield found
                found = []
        if found:
            yield found


class BlockState(NamedTuple):
    """A block in a checkpoint."""

    size: int
    allocated: bool
