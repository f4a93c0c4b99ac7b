"""Judge a simulation, which is at most as trustworthy as its recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.trust.trust import joined, verdict

if TYPE_CHECKING:
    from memreplay.snapshot.model import Verdict
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot


def recording_verdict(snap: Snapshot, replay: Replay, *, strict: bool) -> Verdict:
    """Return the verdict on what a simulation needs from the recording: segments, block sizes, and
    when frees were requested.
    """
    found = [
        verdict(snap, replay.measure(name), strict=strict) for name in ("reserved", "allocated")
    ]
    return joined(found, exact=all(one.exact for one in found))


def simulation_verdict(
    snap: Snapshot, replay: Replay, found: Simulated, *, strict: bool
) -> Verdict:
    """Return a verdict with the recording's reasons, then the simulation's."""
    recorded = recording_verdict(snap, replay, strict=strict)
    return joined([recorded], exact=recorded.exact and found.exact, reasons=found.reasons)
