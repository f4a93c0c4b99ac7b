"""The verdict on a replay: whether its numbers can be trusted, and if not, the reasons by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.model import Verdict

if TYPE_CHECKING:
    from memreplay.replay import Replay
    from memreplay.snapshot import Snapshot


# Reasons that are no doubt: what there is, is exact.
REMARKS = {"no_allocations"}


def overflowed(snap: Snapshot, device: int | None = None) -> bool | None:
    """Whether the recorder's ring buffer dropped events; None where the file does not say.

    The flag is a scalar or a list (an entry a device), at top level or in the settings. Where only
    the buffer's size is known, a trace of that length is taken to have overflowed.
    """
    flag = snap.kept("overflowed")
    if flag is None:
        flag = snap.settings.get("trace_alloc_overflowed")
    if isinstance(flag, list):
        if device is not None:
            flag = flag[device] if device < len(flag) else None
        else:
            flag = any(flag)
    if flag is not None:
        return bool(flag)
    limit = snap.kept("max_entries")
    if limit is None:
        limit = snap.settings.get("trace_alloc_max_entries")
    full = False
    for at, _, _, events in snap.native.traces():
        most = limit[at] if isinstance(limit, list) and at < len(limit) else limit
        if not isinstance(most, int) or isinstance(most, bool) or most <= 0:
            return None
        if device is None or at == device:
            full |= events >= most
    return full if limit is not None else None


def verdict(snap: Snapshot, replay: Replay) -> Verdict:
    """Whether a device's replay can be trusted. The reasons are stable names; docs/numbers.md has
    them."""
    reasons = []
    if snap.truncation is not None:
        reasons.append("truncated")
    # A device that did nothing while others did was recorded all the same.
    if not snap.has_events:
        reasons.append("no_events")
    # A device that gave everything back has no segments, and needs none.
    if not snap.native.has_segments or (
        replay.reconciliation_bytes and snap.native.n_segments == 0
    ):
        reasons.append("no_segments")
    elif replay.reconciliation_bytes and snap.truncation is None:
        # What is cut off cannot agree: that is said already.
        reasons.append("segments_disagree")
    if overflowed(snap, replay.device):
        reasons.append("ring_overflow")
    if replay.events and replay.native.allocs == 0:
        reasons.append("no_allocations")
    if replay.unmatched_frees:
        reasons.append("unmatched_frees")
    if replay.double_allocs:
        reasons.append("double_allocs")
    if replay.size_mismatches:
        reasons.append("size_mismatches")
    if snap.native.blocks_without_requested_size(replay.device):
        reasons.append("no_requested_sizes")
    return Verdict(trusted=set(reasons) <= REMARKS, reasons=tuple(reasons))
