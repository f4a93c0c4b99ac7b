"""Compute the usage at the start and end of annotations, and their peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.moments.highest import Highest
from memreplay.analysis.moments.records import AnnotationUsage, DeviceAnnotations
from memreplay.analysis.trust.facts import device_facts
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from memreplay.snapshot.model import Span, Verdict
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


def device_stages(snap: Snapshot, usage: Usage, trust: Verdict, top: int) -> DeviceAnnotations:
    """Return a device's annotations within the selected events, ordered by start.

    `top` keeps those with the highest peaks (0: all).
    """
    replay = usage.replay
    highest = Highest(usage)
    found: list[AnnotationUsage] = []
    ends: list[float] = []
    for span in spans(snap, replay):
        end_us = float("inf") if span.end_us is None else span.end_us
        # An annotation that starts exactly when another ends isn't nested in it.
        while ends and (ends[-1] <= span.start_us or ends[-1] < end_us):
            ends.pop()
        stage = _stage(usage, span, len(ends), highest)
        ends.append(end_us)
        if stage is not None:
            found.append(stage)
    kept = found
    if top and len(found) > top:
        order = sorted(range(len(found)), key=lambda i: (-found[i].peak_bytes, i))
        kept = [found[i] for i in sorted(order[:top])]
    facts = device_facts(snap, replay, trust)
    return DeviceAnnotations(
        **inlined(DeviceAnnotations, replace(facts, start_us=replay.origin_us)),
        measure=usage.measure,
        peak_bytes=usage.peak.bytes,
        annotations_total=len(found),
        annotations=tuple(kept),
    )


def _stage(usage: Usage, span: Span, depth: int, highest: Highest) -> AnnotationUsage | None:
    """Return an annotation with its usage; None if it's outside the selected events."""
    replay = usage.replay
    last = replay.start + replay.events
    end = last if span.end_event is None else span.end_event
    # If a range was selected, the state before it is unknown.
    before = replay.start if replay.first_event > 0 else None
    after = None if replay.reaches_end else last
    if end == before or span.start_event == after:
        return None
    peak_bytes, peak_event = highest.within(span.start_event, end)
    return AnnotationUsage(
        name=span.name,
        depth=depth,
        start_us=span.start_us,
        end_us=span.end_us,
        start_event=span.start_event,
        end_event=span.end_event,
        start_bytes=None if span.start_event == before else usage.bytes_at(span.start_event),
        peak_bytes=peak_bytes,
        peak_event=peak_event,
        end_bytes=None if span.end_event in (None, after) else usage.bytes_at(end),
    )
