"""Says at which event of a device, and when, something was: the end of a section's heading."""

from __future__ import annotations

from typing import Protocol

from memreplay.render.units import count, counted, signed_duration, time_utc


class Found(Protocol):
    """A number of a device after one event."""

    @property
    def event_index(self) -> int: ...
    @property
    def time_us(self) -> int | None: ...
    @property
    def start_us(self) -> int | None: ...
    @property
    def first_event(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def trace_events(self) -> int: ...


def moment_phrases(what: str, found: Found, preposition: str = "at") -> tuple[str, ...]:
    """`device 0: … at event 12 of 400`, `+0.1 s (… UTC)`, as phrases of a heading."""
    if found.event_index < found.first_event:
        when = "time unknown" if found.time_us is None else time_utc(found.time_us)
        first = f"before the first of {counted(found.events, 'event')}"
        return (f"{what} at the start", first, when)
    where = f"{what} {preposition} event {count(found.event_index)} of {count(found.trace_events)}"
    if found.time_us is None:
        return (where, "time unknown")
    if found.start_us is None:
        return (where, time_utc(found.time_us))
    since = signed_duration(found.time_us - found.start_us)
    return (where, f"{since} ({time_utc(found.time_us)})")
