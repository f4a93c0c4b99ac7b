"""Functions shared by the reports on block maps, for sums, blockers, pools and trust."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from memreplay.analysis.groups.records import Blocker
from memreplay.analysis.trust.trust import joined, verdict

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.engine.query._blockmap import BlockMap
    from memreplay.snapshot.model import Verdict
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot


def map_verdict(snap: Snapshot, replay: Replay, *, strict: bool) -> Verdict:
    """Return the verdict on block maps, which show reserved and active memory.

    Which active blocks wait for a stream also depends on when frees were requested, so the verdict
    has the reasons against `allocated`, too.
    """
    shown = [verdict(snap, replay.measure(name), strict=strict) for name in ("reserved", "active")]
    allocated = verdict(snap, replay.measure("allocated"), strict=strict)
    return joined([*shown, allocated], exact=all(one.exact for one in shown))


def map_sums(sums: dict[str, int]) -> dict[str, int]:
    """Convert the engine's sums to fields of MapSums."""
    return {
        "segments": sums["segments"],
        "unused_segments": sums["unused"],
        "reserved_bytes": sums["size"],
        "in_use_bytes": sums["in_use"],
        "pending_bytes": sums["pending"],
        "free_bytes": sums["free"],
        "requested_bytes": sums["requested"],
        "returnable_bytes": sums["returnable"],
        "largest_free_bytes": sums["largest"],
        "blocks_in_use": sums["blocks_in_use"],
        "blocks_pending": sums["blocks_pending"],
        "blocks_free": sums["blocks_free"],
    }


def pool_of(replay: Replay, found: BlockMap, pool: int | None) -> tuple[int, int] | None:
    """Return the pool of a segment map as two numbers; None if unknown."""
    if pool is None and not found.has_private_pools:
        return 0, 0
    return replay.pool_of(pool)


def blockers_of(
    usage: Usage, found: BlockMap, grouper: Grouper, top: int
) -> tuple[tuple[Blocker, ...], int, int, int]:
    """Return (`top` largest blockers, number of blockers, bytes and blocks of the others)."""
    rows, total, whole, count = found.blockers(grouper.keys(usage), top)
    blockers = tuple(
        Blocker(
            **asdict(grouper.group(usage, name, size, blocks, whole)),
            segments=segments,
            alone_bytes=alone,
        )
        for name, size, blocks, segments, alone in rows
    )
    rest = whole - sum(blocker.bytes for blocker in blockers)
    return blockers, total, rest, count - sum(blocker.count for blocker in blockers)
