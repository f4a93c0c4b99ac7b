"""Describe in a heading at which event and time a number holds."""

from __future__ import annotations

from typing import Protocol

from memreplay.render.units import count, counted, signed_duration, time_utc


class Read(Protocol):
    """A device's events that were read."""

    @property
    def start_us(self) -> int | None: ...
    @property
    def first_event(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def trace_events(self) -> int: ...


class Found(Read, Protocol):
    """One of a device's numbers, as it is after one event."""

    @property
    def event_index(self) -> int: ...
    @property
    def time_us(self) -> int | None: ...


class Peak(Read, Protocol):
    """The peak of a device, with the verdict on it."""

    @property
    def device(self) -> int: ...
    @property
    def peak_event(self) -> int: ...
    @property
    def peak_us(self) -> int | None: ...
    @property
    def reasons(self) -> tuple[str, ...]: ...


def peak_phrases(high: str, peak: Peak) -> tuple[str, ...]:
    """Return the heading phrases `device 0: peak 1.5 GiB requested at event 12 of 400`, and its
    time. `high` is the amount with its measure. If no allocation was recorded, it isn't called a
    peak, because only one state is known.
    """
    name = f"device {peak.device}: "
    if peak.events == 0:
        if peak.trace_events:
            return (f"{name}no events in this range; {high} there",)
        if "no_events" in peak.reasons:
            return (f"{name}no events were recorded; {high} in the final state",)
        return (f"{name}no events; {high} all along",)
    if "no_allocations" in peak.reasons and peak.peak_event < peak.first_event:
        of = counted(peak.events, "event")
        return (f"{name}no allocation was recorded; {high} before the first of {of}",)
    return _phrases(f"{name}peak {high}", "at", peak.peak_event, peak.peak_us, peak)


def moment_phrases(what: str, found: Found, preposition: str = "at") -> tuple[str, ...]:
    """Return the heading phrases, e.g. `device 0: … at event 12 of 400` and `+0.1 s (… UTC)`."""
    return _phrases(what, preposition, found.event_index, found.time_us, found)


def _phrases(
    what: str, preposition: str, event: int, time_us: int | None, read: Read
) -> tuple[str, ...]:
    if event < read.first_event:
        when = () if time_us is None else (time_utc(time_us),)
        return (
            f"{what} at the start",
            f"before the first of {counted(read.events, 'event')}",
            *when,
        )
    where = f"{what} {preposition} event {count(event)} of {count(read.trace_events)}"
    if time_us is None:
        return (where,)
    if read.start_us is None:
        return (where, time_utc(time_us))
    return (where, f"{signed_duration(time_us - read.start_us)} ({time_utc(time_us)})")
