"""Says how far numbers can be trusted, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from memreplay.analysis.trust.trust import REMARKS, UNSEEN
from memreplay.render.reasons import REASONS
from memreplay.render.units import count, counted
from memreplay.snapshot.model import SIMULATION_REASONS

SHOWN_DOUBTS = 2
# Behind a number in a column: it can't be trusted; there may have been more; it is estimated.
DOUBTFUL, AT_LEAST, ESTIMATED = "?", "+", "~"
PEAK_MAY_BE_MISSING = "an earlier, higher peak may be missing"


class Judged(Protocol):
    """Numbers of one device, with the verdict on them; `trace_events` or `events`, if there, is how
    many events its trace has."""

    @property
    def exactness(self) -> str: ...
    @property
    def reasons(self) -> tuple[str, ...]: ...


def seen_words(reasons: Iterable[str], events: int) -> tuple[str, str]:
    """Return what a snapshot shows if it isn't all that happened, and why; empty if it's all.

    `events` is how many events the device's trace has; 0 if that isn't known.
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
    """`exact`, `estimated`, `exact for the last 1,000 events`, `not trustworthy`."""
    return label_of(found.exactness, found.reasons, _events_of(found))


def label_of(exactness: str, reasons: Iterable[str], events: int = 0) -> str:
    """The same of a verdict's parts."""
    reasons = tuple(reasons)
    if doubts_of(reasons):
        return "not trustworthy"
    seen, _ = seen_words(reasons, events)
    return f"{exactness} for {seen}" if seen else exactness


def trust_mark(found: Judged) -> str:
    """The same as one character behind a number; empty if it is exact."""
    if doubts_of(found.reasons):
        return DOUBTFUL
    if seen_words(found.reasons, 0)[0]:
        return AT_LEAST
    return ESTIMATED if found.exactness == "estimated" else ""


def trust_words(found: Judged, events: int | None = None) -> str:
    """The same in a sentence, with the reason; `events` if the numbers don't say how many."""
    if doubts_of(found.reasons):
        against = [reason for reason in found.reasons if reason not in REMARKS]
        return f"Not trustworthy: {doubts_words(against)}."
    if events is None:
        events = _events_of(found)
    seen, why = seen_words(found.reasons, events)
    if seen:
        return f"{found.exactness.capitalize()} for {seen} only: {why}, so {PEAK_MAY_BE_MISSING}."
    if found.exactness == "exact":
        return "Exact: the snapshot is consistent."
    return "Estimated: the snapshot is consistent, but doesn't have all that these numbers need."


def _events_of(found: Judged) -> int:
    events: int = getattr(found, "trace_events", getattr(found, "events", 0))
    return events


def doubts_words(doubts: list[str]) -> str:
    """The first doubts in words, and how many more there are."""
    known = "; ".join(map(_what, doubts[:SHOWN_DOUBTS]))
    more = len(doubts) - SHOWN_DOUBTS
    also = f", and {counted(more, 'more reason')} (summary lists them)" if more > 0 else ""
    return known + also


def doubts_of(reasons: Iterable[str]) -> list[str]:
    """Those that contradict the numbers, or lack what they need. That a simulation is an estimate
    is no doubt."""
    known = REMARKS | UNSEEN | SIMULATION_REASONS
    return [reason for reason in reasons if reason not in known]


def _what(reason: str) -> str:
    return REASONS[reason].what if reason in REASONS else reason.replace("_", " ")
