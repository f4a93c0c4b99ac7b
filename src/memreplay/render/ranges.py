"""Describe which events were selected."""

from __future__ import annotations

from memreplay.render.units import count, duration, time_utc
from memreplay.snapshot.model import EventRange, Moment

MOST_DEVICES = 3  # maximum number of devices listed


def ranges_text(base: EventRange, new: EventRange) -> str:
    """Say in one line that two sides cover different events."""
    return f"the base covers {_words(base)}, this covers {_words(new)}"


def empty_text(asked: EventRange, devices: list[tuple[int, int]]) -> str:
    """Say that a range has no events, and how many events each device has. `devices`: (device,
    number of events).
    """
    there = [f"device {at} has events 0 to {count(n - 1)}" for at, n in devices if n]
    if not there:
        return f"no events in {_words(asked)}: none were recorded"
    more = f" and {len(there) - MOST_DEVICES} more devices" if len(there) > MOST_DEVICES else ""
    return f"no events in {_words(asked)}; {', '.join(there[:MOST_DEVICES])}{more}"


def times_text(first_us: int | None, last_us: int | None) -> str:
    """Return the first and last time; "" if there are no times."""
    if first_us is None or last_us is None:
        return ""
    return f", from {time_utc(first_us)} on for {duration(last_us - first_us)}"


def range_options(found: EventRange) -> str:
    """Return the options that select a range; "" for all events."""
    bounds = (("--from", found.start), ("--to", found.stop))
    parts = [f"{option} {_spelled(moment)}" for option, moment in bounds if moment is not None]
    return " ".join(parts)


def _words(found: EventRange) -> str:
    return range_options(found) or "all events"


def _spelled(moment: Moment) -> str:
    """Format a moment in the form that the option takes."""
    if moment.kind == "event":
        return str(moment.value)
    if moment.kind == "time":
        seconds, us = divmod(abs(moment.value), 1_000_000)
        return f"@{'-' if moment.value < 0 else ''}{seconds}.{us:06}"
    for unit, us in (("s", 1_000_000), ("ms", 1_000)):
        if moment.value % us == 0:
            return f"{moment.value // us}{unit}"
    return f"{moment.value}us"
