"""Sums of block maps, and who holds what is free in them."""

from __future__ import annotations

from typing import Literal

from msgspec import UnsetType

from memreplay.snapshot.model import Group, Part, Parted
from memreplay.snapshot.record import Record

# Which requests the blocks of a segment serve: up to 1 MiB, or larger.
Kind = Literal["small", "large"]


class Holders(Record, Parted, frozen=True, kw_only=True):
    """The part of a result that says who held memory at a moment; `commands.shared.fields` says
    what each field means."""

    live_count: int
    """In how many allocations it was."""
    groups_total: int
    rest_bytes: int
    rest_count: int
    groups: tuple[Group, ...]
    pools: tuple[Part, ...] | UnsetType
    streams: tuple[Part, ...] | UnsetType


class MapSums(Record, frozen=True, kw_only=True):
    """Sums over segments and their blocks: part of what has segments. Its fields come after those
    of the records that are made of it."""

    segments: int
    """How many segments, and mapped ranges of expandable ones, there are."""
    unused_segments: int
    """How many of them have no block in use."""
    reserved_bytes: int
    """Their size: `in_use_bytes` + `pending_bytes` + `free_bytes`."""
    in_use_bytes: int
    """What is in blocks that the program holds."""
    pending_bytes: int
    """What is in blocks whose free was requested and has not completed."""
    free_bytes: int
    """What is in free blocks."""
    requested_bytes: int
    """What was asked for, of the blocks that are in use or pending."""
    returnable_bytes: int
    """What `empty_cache()` would give back of these segments if their pool allowed it."""
    largest_free_bytes: int
    """The largest free block."""
    blocks_in_use: int
    """How many blocks are in use."""
    blocks_pending: int
    """How many are pending."""
    blocks_free: int
    """How many are free."""


class Blocker(Group, frozen=True, kw_only=True):
    """Blocks of one group that are in use, and the free bytes that they keep reserved: `bytes` are
    free ones, `count` is of the blocks, `share` of `pinned_bytes`."""

    segments: int
    """In how many segments it blocks any."""
    alone_bytes: int
    """Free bytes that no other group blocks."""
