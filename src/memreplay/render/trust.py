"""Says how far numbers can be trusted, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from memreplay.analysis.trust.trust import REMARKS, UNSEEN
from memreplay.render.reasons import REASONS
from memreplay.render.units import counted

SHOWN_DOUBTS = 2
PEAK_MAY_BE_MISSING = "an earlier, higher peak may be missing"


class Judged(Protocol):
    """Numbers of one device, with the verdict on them."""

    @property
    def exactness(self) -> str: ...
    @property
    def trusted(self) -> bool: ...
    @property
    def reasons(self) -> tuple[str, ...]: ...
    @property
    def trace_events(self) -> int: ...


def seen_words(reasons: Iterable[str], events: int) -> tuple[str, str]:
    """Return what a snapshot shows if it isn't all that happened, and why; empty if it's all.

    `events` is how many events the device's trace has.
    """
    found = set(reasons)
    if "no_events" in found:
        return "the final state only", "no events were recorded"
    if "no_allocations" in found:
        return "the final state only", "no allocation was recorded"
    last = f"the last {counted(events, 'event')} only" if events > 1 else "the last events only"
    if "ring_overflow" in found:
        return last, "the ring buffer was full"
    if "ring_overflow_likely" in found:
        return last, "the ring buffer was probably full"
    return "", ""


def trust_label(found: Judged) -> str:
    """`exact`, `estimated`, `exact for the last 1,000 events only`, `not trustworthy`."""
    if _doubts(found.reasons):
        return "not trustworthy"
    seen, _ = seen_words(found.reasons, found.trace_events)
    return f"{found.exactness} for {seen}" if seen else found.exactness


def trust_words(found: Judged) -> str:
    """The same in a sentence, with the reason."""
    doubts = _doubts(found.reasons)
    if doubts:
        known = "; ".join(_what(reason) for reason in doubts[:SHOWN_DOUBTS])
        more = len(doubts) - SHOWN_DOUBTS
        also = f", and {counted(more, 'more reason')} (summary lists them)" if more > 0 else ""
        return f"Not trustworthy: {known}{also}."
    seen, why = seen_words(found.reasons, found.trace_events)
    if seen:
        return f"{found.exactness.capitalize()} for {seen}: {why}, so {PEAK_MAY_BE_MISSING}."
    if found.exactness == "exact":
        return "Exact: the snapshot is consistent."
    return "Estimated: the snapshot is consistent, but doesn't have all that these numbers need."


def _doubts(reasons: Iterable[str]) -> list[str]:
    return [reason for reason in reasons if reason not in REMARKS and reason not in UNSEEN]


def _what(reason: str) -> str:
    return REASONS[reason].what if reason in REASONS else reason.replace("_", " ")
