"""Records of block maps: sums, and the groups whose blocks keep free memory reserved."""

from __future__ import annotations

from typing import Literal

from msgspec import UnsetType

from memreplay.snapshot.model import Group, Part, Parted
from memreplay.snapshot.record import Record

# Whether a segment serves small requests (up to 1 MiB) or larger ones.
Kind = Literal["small", "large"]


class Holders(Record, Parted, frozen=True, kw_only=True):
    """The part of a result that says what held memory at a moment; `commands.shared.fields`
    documents the fields.
    """

    live_count: int
    """Number of live allocations."""
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[Group, ...]
    pools: tuple[Part, ...] | UnsetType
    streams: tuple[Part, ...] | UnsetType


class MapSums(Record, frozen=True, kw_only=True):
    """Sums over segments and their blocks. In records that include it, its fields come last."""

    segments: int
    """Number of segments and mapped ranges of expandable segments."""
    unused_segments: int
    """Number of segments without a block in use."""
    reserved_bytes: int
    """Size of the segments: `in_use_bytes` + `pending_bytes` + `free_bytes`."""
    in_use_bytes: int
    """Bytes in blocks that the program uses."""
    pending_bytes: int
    """Bytes in blocks whose free was requested but isn't complete."""
    free_bytes: int
    """Bytes in free blocks."""
    requested_bytes: int
    """Requested bytes of the blocks in use or pending."""
    returnable_bytes: int
    """Bytes of these segments that `empty_cache()` would release if their pool allowed it."""
    largest_free_bytes: int
    """Size of the largest free block."""
    blocks_in_use: int
    """Number of blocks in use."""
    blocks_pending: int
    """Number of pending blocks."""
    blocks_free: int
    """Number of free blocks."""


class Blocker(Group, frozen=True, kw_only=True):
    """One group's blocks in use, and the free bytes that they keep reserved.

    `bytes` is the number of free bytes, `count` is the number of blocks, and `share` is relative to
    `pinned_bytes`.
    """

    segments: int
    """Number of segments it blocks."""
    alone_bytes: int
    """Free bytes that no other group blocks."""
