"""What is in a snapshot, and whether a replay of it can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.generation import changed_settings, generation
from memreplay.analysis.trust.ring import dropped_events, overflow_signs, overflowed
from memreplay.analysis.trust.trust import device_verdict, verdict
from memreplay.commands.summary.result import (
    DeviceSummary,
    MeasureSummary,
    Overflow,
    SnapshotSummary,
    StateBytes,
)
from memreplay.commands.summary.run import recorded_run
from memreplay.snapshot.json_values import json_safe
from memreplay.snapshot.model import MEASURES
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot


@takes()
def summarize(snap: Snapshot) -> SnapshotSummary:
    """Everything that `memreplay summary` shows; replays each device."""
    return SnapshotSummary(
        file=snap.file,
        file_bytes=snap.file_bytes,
        stream_bytes=snap.stream_bytes,
        container=snap.container,
        protocol=snap.protocol,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        generation=generation(snap),
        recorded=recorded_run(snap),
        has_times=snap.has_times,
        has_stacks=snap.code.stacks > 1,
        annotations=snap.annotation_count,
        # Id 0 of both is the empty one.
        stacks=snap.code.stacks - 1,
        frames=snap.code.frames - 1,
        overflowed=overflowed(snap),
        settings=_safe(snap.settings),
        settings_changed=_safe(changed_settings(snap.settings)),
        devices=tuple(device_summary(snap, device) for device in snap.devices),
    )


def _safe(settings: dict[str, object]) -> dict[str, object]:
    found = json_safe(settings)
    assert isinstance(found, dict)
    return found


def device_summary(snap: Snapshot, device: int) -> DeviceSummary:
    """One device of a snapshot. Raises UsageError when it is not there."""
    replay = snap.replay(device)
    tally = replay.tally
    states = _states(snap, tally.states)
    first_us, last_us = tally.times or (None, None)
    trust = device_verdict(snap, replay)
    return DeviceSummary(
        **inlined(DeviceSummary, device_facts(snap, replay, trust)),
        actions=_actions(snap, tally.actions),
        first_us=first_us,
        last_us=last_us,
        events_with_stack=tally.with_stack,
        segments=tally.segments,
        reserved_bytes=tally.reserved_bytes,
        active_bytes=sum(s.size_bytes for s in states if s.state != "inactive"),
        requested_bytes=replay.segment_requested_bytes,
        states=states,
        carried_over_bytes=replay.carried_over_bytes,
        peak_bytes=replay.peak.bytes,
        end_bytes=replay.end_bytes,
        unmatched_frees=replay.unmatched_frees,
        double_allocs=replay.double_allocs,
        unknown_actions=replay.unknown_actions,
        reconciliation_bytes=replay.reconciliation_bytes,
        measures=tuple(_measures(snap, replay)),
        pools=_classes(replay, "pool"),
        streams=_classes(replay, "stream"),
        blocks_proven=replay.blocks.proven,
        blocks_assumed=replay.blocks.assumed,
        pending_frees=replay.holding.pending,
        synthetic_events=replay.blocks.synthetic,
        overflow=_overflow(snap, replay),
        overflow_signs=overflow_signs(snap, replay),
        dropped_events=dropped_events(snap, device),
    )


def _overflow(snap: Snapshot, replay: Replay) -> Overflow:
    known = overflowed(snap, replay.device)
    if known is not None:
        return "yes" if known else "no"
    return "likely" if overflow_signs(snap, replay) else "unknown"


def _measures(snap: Snapshot, replay: Replay) -> Iterator[MeasureSummary]:
    for name in MEASURES:
        usage = replay.measure(name)
        yield measure_summary(snap, usage)
        usage.release()  # no two of them at a time


def measure_summary(snap: Snapshot, usage: Usage) -> MeasureSummary:
    """One measure of one device, over the events that were read."""
    trust = verdict(snap, usage)
    return MeasureSummary(
        measure=usage.measure,
        exactness=trust.exactness,
        reasons=trust.reasons,
        start_bytes=usage.start_bytes,
        peak_bytes=usage.peak.bytes,
        event_index=usage.peak.event_index,
        time_us=usage.peak.time_us,
        minimum_bytes=usage.minimum.bytes,
        mean_bytes=usage.mean_bytes,
        end_bytes=usage.end_bytes,
        reconciliation_bytes=usage.reconciliation_bytes,
    )


def _classes(replay: Replay, by: str) -> int:
    """How many pools or streams are known; 0 where the file says none."""
    return len(replay.classes(by).keys()) - 1


def _actions(snap: Snapshot, counts: dict[int, int]) -> dict[str, int]:
    """Events by action, in the order of action codes; "(none)" for events without one."""
    found: dict[str, int] = {}
    for code, events in counts.items():
        name = snap.action_name(code) or "(none)"
        found[name] = found.get(name, 0) + events
    return found


def _states(snap: Snapshot, counts: list[tuple[int, int, int, int]]) -> tuple[StateBytes, ...]:
    """Blocks of a device by state, active ones first."""
    found = [StateBytes(snap.state_name(code), *numbers) for code, *numbers in counts]
    return tuple(sorted(found, key=lambda s: (s.state == "inactive", -s.size_bytes)))
