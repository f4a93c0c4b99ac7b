"""Says which events were read, or could be, in words."""

from __future__ import annotations

from memreplay.render.units import count, duration, time_utc
from memreplay.snapshot.model import EventRange, Moment

MOST_DEVICES = 3  # that are named


def ranges_words(base: EventRange, new: EventRange) -> str:
    """That two sides are of other events, in one line."""
    return f"the base covers {_words(base)}, this covers {_words(new)}"


def empty_words(asked: EventRange, devices: list[tuple[int, int]]) -> str:
    """That no event is in a range, and what there is: `devices` are (device, events)."""
    there = [f"device {at} has events 0 to {count(n - 1)}" for at, n in devices if n]
    if not there:
        return f"no events in {_words(asked)}: none were recorded"
    more = f" and {len(there) - MOST_DEVICES} devices more" if len(there) > MOST_DEVICES else ""
    return f"no events in {_words(asked)}; {', '.join(there[:MOST_DEVICES])}{more}"


def times_words(first_us: int | None, last_us: int | None) -> str:
    """From when to when events are; empty where they have no times."""
    if first_us is None or last_us is None:
        return ""
    return f", from {time_utc(first_us)} on for {duration(last_us - first_us)}"


def range_options(found: EventRange) -> str:
    """The options that ask for a range; empty for all events."""
    bounds = (("--from", found.start), ("--to", found.stop))
    parts = [f"{option} {_spelled(moment)}" for option, moment in bounds if moment is not None]
    return " ".join(parts)


def _words(found: EventRange) -> str:
    return range_options(found) or "all events"


def _spelled(moment: Moment) -> str:
    """As the option takes it."""
    if moment.kind == "event":
        return str(moment.value)
    if moment.kind == "time":
        seconds, us = divmod(abs(moment.value), 1_000_000)
        return f"@{'-' if moment.value < 0 else ''}{seconds}.{us:06}"
    for unit, us in (("s", 1_000_000), ("ms", 1_000)):
        if moment.value % us == 0:
            return f"{moment.value // us}{unit}"
    return f"{moment.value}us"
