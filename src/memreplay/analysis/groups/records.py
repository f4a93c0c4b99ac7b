"""Sums of block maps, and who holds what is free in them."""

from __future__ import annotations

from typing import Literal

from memreplay.snapshot.model import Group
from memreplay.snapshot.record import Record

Kind = Literal["small", "large"]


class MapSums(Record, frozen=True):
    """Sums over blocks. `reserved_bytes` = in use + pending + free.

    `requested_bytes` is what was asked for of what is in use or pending. `returnable_bytes` is what
    empty_cache() would give back of these segments if their pool allowed it. `unused_segments` have
    no block in use.
    """

    segments: int
    unused_segments: int
    reserved_bytes: int
    in_use_bytes: int
    pending_bytes: int
    free_bytes: int
    requested_bytes: int
    returnable_bytes: int
    largest_free_bytes: int
    blocks_in_use: int
    blocks_pending: int
    blocks_free: int


class Pin(Record, frozen=True):
    """Blocks of one group that are in use, and the free bytes that they keep reserved.

    The bytes of `group` are its part of the pinned bytes, its count the blocks. `segments` is how
    many it pins; `alone_bytes` are free bytes that no other group pins.
    """

    group: Group
    segments: int
    alone_bytes: int
