"""Whether what a simulation says can be trusted: no more than the recording that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.groups.mapped import map_verdict
from memreplay.snapshot.model import Verdict, joined

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.simulated import Simulated
    from memreplay.snapshot.snapshot import Snapshot


def simulation_verdict(
    snap: Snapshot, replay: Replay, found: Simulated, *, strict: bool
) -> Verdict:
    """Reasons of the recording first, then those of the simulation."""
    recorded = map_verdict(snap, replay, strict=strict)
    return joined([recorded], exact=recorded.exact and found.exact, reasons=found.reasons)
