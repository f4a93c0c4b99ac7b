"""Summarize a snapshot, and judge whether its replay can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

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
from memreplay.snapshot.json_values import json_safe
from memreplay.snapshot.model import MEASURES
from memreplay.snapshot.record import inlined
from memreplay.snapshot.recorded_memory import card_uses, host_use
from memreplay.snapshot.recorded_run import recorded_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot


@takes()
def summarize(snap: Snapshot) -> SnapshotSummary:
    """Replay each device, and return everything that `memreplay summary` shows."""
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
        card_memory=card_uses(snap),
        host_memory=host_use(snap),
        has_times=snap.has_times,
        has_stacks=snap.code.stacks > 1,
        annotation_count=snap.annotation_count,
        # Id 0 is the empty stack or frame.
        stack_count=snap.code.stacks - 1,
        frame_count=snap.code.frames - 1,
        overflowed=overflowed(snap),
        allocator_settings=_safe(snap.settings),
        settings_changed=_safe(changed_settings(snap.settings)),
        devices=tuple(device_summary(snap, device) for device in snap.devices),
    )


def _safe(settings: dict[str, object]) -> dict[str, object]:
    found = json_safe(settings)
    assert isinstance(found, dict)
    return found


def device_summary(snap: Snapshot, device: int) -> DeviceSummary:
    """Summarize one device. Raises UsageError if it doesn't exist."""
    replay = snap.replay(device)
    tally = replay.tally
    states = _states(snap, tally.states)
    start_us, end_us = tally.times or (None, None)
    trust = device_verdict(snap, replay)
    return DeviceSummary(
        **inlined(DeviceSummary, replace(device_facts(snap, replay, trust), start_us=start_us)),
        actions=_actions(snap, tally.actions),
        end_us=end_us,
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
        pool_count=_classes(replay, "pool"),
        stream_count=_classes(replay, "stream"),
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
        usage.release()  # so that only one measure is in memory at a time


def measure_summary(snap: Snapshot, usage: Usage) -> MeasureSummary:
    """Summarize one measure of a device over the selected events."""
    trust = verdict(snap, usage)
    if usage.measure == "reserved" and not usage.replay.shows_reserved:
        return MeasureSummary(
            measure=usage.measure,
            exactness=trust.exactness,
            reasons=trust.reasons,
            start_bytes=None,
            peak_bytes=None,
            peak_event=None,
            peak_us=None,
            lowest_bytes=None,
            mean_bytes=None,
            end_bytes=None,
            reconciliation_bytes=None,
        )
    return MeasureSummary(
        measure=usage.measure,
        exactness=trust.exactness,
        reasons=trust.reasons,
        start_bytes=usage.start_bytes,
        peak_bytes=usage.peak.bytes,
        peak_event=usage.peak.event_index,
        peak_us=usage.peak.time_us,
        lowest_bytes=usage.minimum.bytes,
        mean_bytes=usage.mean_bytes,
        end_bytes=usage.end_bytes,
        reconciliation_bytes=usage.reconciliation_bytes,
    )


def _classes(replay: Replay, by: str) -> int:
    """Return the number of known pools or streams; 0 if the file doesn't have any."""
    return len(replay.classes(by).keys()) - 1


def _actions(snap: Snapshot, counts: dict[int, int]) -> dict[str, int]:
    """Return the number of events by action, in the order of action codes. Events without an action
    are under "(none)".
    """
    found: dict[str, int] = {}
    for code, events in counts.items():
        name = snap.action_name(code) or "(none)"
        found[name] = found.get(name, 0) + events
    return found


def _states(snap: Snapshot, counts: list[tuple[int, int, int, int]]) -> tuple[StateBytes, ...]:
    """Return a device's blocks by state, active ones first."""
    found = [StateBytes(snap.state_name(code), *numbers) for code, *numbers in counts]
    return tuple(sorted(found, key=lambda s: (s.state == "inactive", -s.size_bytes)))
