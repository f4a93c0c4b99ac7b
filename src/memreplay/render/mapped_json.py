"""Block maps as JSON, the same in every report that has them (docs/json.md)."""

from __future__ import annotations

from memreplay.analysis.groups.records import MapSums, Pin
from memreplay.render.holders_json import group_json


def sums_json(sums: MapSums) -> dict[str, object]:
    """Sums over segments and their blocks."""
    return {
        "segments": sums.segments,
        "unused_segments": sums.unused_segments,
        "reserved_bytes": sums.reserved_bytes,
        "in_use_bytes": sums.in_use_bytes,
        "pending_bytes": sums.pending_bytes,
        "free_bytes": sums.free_bytes,
        "requested_bytes": sums.requested_bytes,
        "returnable_bytes": sums.returnable_bytes,
        "largest_free_bytes": sums.largest_free_bytes,
        "blocks_in_use": sums.blocks_in_use,
        "blocks_pending": sums.blocks_pending,
        "blocks_free": sums.blocks_free,
    }


def pin_json(pin: Pin) -> dict[str, object]:
    """A group that pins free memory: `bytes` are free ones, `count` the blocks that pin them."""
    return group_json(pin) | {"segments": pin.segments, "alone_bytes": pin.alone_bytes}


def pool_json(pool: tuple[int, int] | None) -> list[int] | None:
    """A pool's two numbers."""
    return None if pool is None else list(pool)
