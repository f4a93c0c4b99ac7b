"""What is in a snapshot, and whether a replay of it can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memreplay import _core
from memreplay.analysis.generation import changed_settings, generation
from memreplay.analysis.trust import device_verdict, overflowed, verdict
from memreplay.model import (
    MEASURES,
    DeviceSummary,
    MeasureSummary,
    SnapshotSummary,
    StateBytes,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.replay import Replay, Usage
    from memreplay.snapshot import Snapshot


def summarize(snap: Snapshot) -> SnapshotSummary:
    """Everything that `memreplay summary` shows; replays each device."""
    native = snap.native
    return SnapshotSummary(
        file=snap.file,
        file_bytes=snap.file_bytes,
        stream_bytes=snap.stream_bytes,
        container=snap.container,
        protocol=snap.protocol,
        truncated=snap.truncation is not None,
        generation=generation(native),
        has_times=native.any_time,
        has_stacks=native.n_stacks > 1,
        annotations=native.n_annotations,
        # Id 0 of both is the empty one.
        stacks=native.n_stacks - 1,
        frames=native.n_frames - 1,
        overflowed=overflowed(snap),
        settings=snap.settings,
        settings_changed=changed_settings(snap.settings),
        devices=tuple(device_summary(snap, device) for device in snap.devices),
    )


def device_summary(snap: Snapshot, device: int) -> DeviceSummary:
    """One device of a snapshot. Raises UsageError when it is not there."""
    replay = snap.replay(device)
    first = replay.native.first_row
    rows = slice(first, first + replay.events)
    times = snap.events.time_us[rows]
    times = times[times != _core.ABSENT_TIME]
    in_segments = snap.segments.device == device
    states = _states(snap, in_segments)
    trust = device_verdict(snap, replay)
    return DeviceSummary(
        device=device,
        first_event=replay.first_event,
        events=replay.events,
        trace_events=snap.trace_events(device),
        actions=_actions(snap, rows),
        first_us=int(times.min()) if len(times) else None,
        last_us=int(times.max()) if len(times) else None,
        events_with_stack=int(np.count_nonzero(snap.events.stack[rows])),
        segments=int(np.count_nonzero(in_segments)),
        reserved_bytes=int(snap.segments.total_size[in_segments].sum()),
        active_bytes=sum(s.size_bytes for s in states if s.state != "inactive"),
        requested_bytes=replay.native.segment_requested_bytes,
        states=states,
        baseline_bytes=replay.baseline_bytes,
        peak_bytes=replay.peak.bytes,
        final_bytes=replay.final_bytes,
        unmatched_frees=replay.unmatched_frees,
        double_allocs=replay.double_allocs,
        unknown_actions=replay.unknown_actions,
        reconciliation_bytes=replay.reconciliation_bytes,
        measures=tuple(measure_summary(snap, replay.measure(name)) for name in MEASURES),
        pools=_classes(replay, "pool"),
        streams=_classes(replay, "stream"),
        blocks_proven=replay.blocks.proven,
        blocks_assumed=replay.blocks.assumed,
        pending_frees=replay.holding.pending,
        synthetic_events=replay.blocks.synthetic,
        trusted=trust.trusted,
        reasons=trust.reasons,
    )


def measure_summary(snap: Snapshot, usage: Usage) -> MeasureSummary:
    """One measure of one device, over the events that were read."""
    trust = verdict(snap, usage)
    return MeasureSummary(
        measure=usage.measure,
        exactness="exact" if trust.exact else "estimated",
        reasons=trust.reasons,
        start_bytes=usage.start_bytes,
        peak_bytes=usage.peak.bytes,
        event_index=usage.peak.event_index,
        time_us=usage.peak.time_us,
        minimum_bytes=usage.minimum.bytes,
        mean_bytes=usage.mean_bytes,
        final_bytes=usage.final_bytes,
        reconciliation_bytes=usage.reconciliation_bytes,
    )


def _classes(replay: Replay, by: str) -> int:
    """How many pools or streams are known; 0 where the file says none."""
    return len(replay.classes(by).keys()) - 1


def _actions(snap: Snapshot, rows: slice) -> dict[str, int]:
    """Events by action, in the order of action codes; "(none)" for events without one."""
    counts = np.bincount(snap.events.action[rows], minlength=1)
    found: dict[str, int] = {}
    for code in np.flatnonzero(counts):
        name = snap.action_name(int(code)) or "(none)"
        found[name] = found.get(name, 0) + int(counts[code])
    return found


def _states(snap: Snapshot, in_segments: NDArray[np.bool_]) -> tuple[StateBytes, ...]:
    """Blocks of the chosen segments by state, active ones first."""
    blocks = snap.blocks
    if len(blocks) == 0:
        return ()
    chosen = in_segments[blocks.segment]
    found = []
    for code in range(len(_core.STATES)):
        here = chosen & (blocks.state == code)
        if not here.any():
            continue
        name = snap.state_name(code)
        requested = 0 if name == "inactive" else int(blocks.requested_size[here].sum())
        found.append(
            StateBytes(name, int(np.count_nonzero(here)), int(blocks.size[here].sum()), requested)
        )
    return tuple(sorted(found, key=lambda s: (s.state == "inactive", -s.size_bytes)))
