"""Describe how far numbers can be trusted, consistently everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from memreplay.analysis.trust.trust import REMARKS, UNSEEN
from memreplay.render.reasons import REASONS
from memreplay.render.units import count, counted
from memreplay.snapshot.model import SIMULATION_REASONS

SHOWN_DOUBTS = 2
# Suffixes for numbers in tables: not trustworthy, a lower bound, estimated.
DOUBTFUL, AT_LEAST, ESTIMATED = "?", "+", "~"
PEAK_MAY_BE_MISSING = "an earlier, higher peak may be missing"
NOT_RESERVED = "not known: segment events are missing, so more was active than reserved"


class Judged(Protocol):
    """A device's numbers with their verdict. `trace_events` or `events`, if present: number of
    events in its trace.
    """

    @property
    def exactness(self) -> str: ...
    @property
    def reasons(self) -> tuple[str, ...]: ...


def seen_text(reasons: Iterable[str], events: int) -> tuple[str, str]:
    """Say which part of the run a snapshot shows, and why; empty if it shows the whole run.

    `events`: number of events in the device's trace; 0 if unknown.
    """
    found = set(reasons)
    if "no_events" in found:
        return "the final state", "no events were recorded"
    if "no_allocations" in found:
        return "the final state", "no allocation was recorded"
    last = f"the last {count(events)} events" if events > 1 else "the last events"
    if "ring_overflow" in found:
        return last, "the ring buffer was full"
    if "ring_overflow_likely" in found:
        return last, "the ring buffer was probably full"
    return "", ""


def trust_label(found: Judged) -> str:
    """Return the label: `exact`, `estimated`, `exact for the last 1,000 events` or `not
    trustworthy`.
    """
    return label_of(found.exactness, found.reasons, _events_of(found))


def label_of(exactness: str, reasons: Iterable[str], events: int = 0) -> str:
    """Return the label for a verdict, given its parts."""
    reasons = tuple(reasons)
    if doubts_of(reasons):
        return "not trustworthy"
    seen, _ = seen_text(reasons, events)
    return f"{exactness} for {seen}" if seen else exactness


def trust_mark(found: Judged) -> str:
    """Return the label as a one-character suffix; "" for exact numbers."""
    if doubts_of(found.reasons):
        return DOUBTFUL
    if seen_text(found.reasons, 0)[0]:
        return AT_LEAST
    return ESTIMATED if found.exactness == "estimated" else ""


def trust_text(found: Judged, events: int | None = None) -> str:
    """Return the label as a sentence with the reason. `events` is the number of events, needed if
    `found` doesn't have it.
    """
    if doubts_of(found.reasons):
        against = [reason for reason in found.reasons if reason not in REMARKS]
        return f"Not trustworthy: {doubts_text(against)}."
    if events is None:
        events = _events_of(found)
    seen, why = seen_text(found.reasons, events)
    if seen:
        return f"{found.exactness.capitalize()} for {seen} only: {why}, so {PEAK_MAY_BE_MISSING}."
    if found.exactness == "exact":
        return "Exact: the snapshot is consistent."
    return "Estimated: the snapshot is consistent, but lacks some of the data these numbers need."


def _events_of(found: Judged) -> int:
    events: int = getattr(found, "trace_events", getattr(found, "events", 0))
    return events


def doubts_text(doubts: list[str]) -> str:
    """Return the first few doubts, and the number of others."""
    known = "; ".join(map(_what, doubts[:SHOWN_DOUBTS]))
    more = len(doubts) - SHOWN_DOUBTS
    also = f", and {counted(more, 'more reason')} (summary lists them)" if more > 0 else ""
    return known + also


def doubts_of(reasons: Iterable[str]) -> list[str]:
    """Return the reasons that are doubts: data contradicts the numbers, or is missing. An estimate
    isn't a doubt.
    """
    known = REMARKS | UNSEEN | SIMULATION_REASONS
    return [reason for reason in reasons if reason not in known]


def _what(reason: str) -> str:
    return REASONS[reason].what if reason in REASONS else reason.replace("_", " ")
