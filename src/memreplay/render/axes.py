"""Choose and label ticks for axes of bytes, events and times."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from memreplay.render.units import UNITS, count


class Tick(NamedTuple):
    """A position on an axis and its label."""

    at: float
    label: str


EXACT = 1 << 48  # smaller numbers of bytes are exact as floating-point numbers
LEAST_STEP = 0.05  # of the unit; smaller distances are given in the next smaller unit
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000
# Distances between ticks above a second, as on a clock.
_CLOCK = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12, 24)),
)


def byte_ticks(low: int, high: int, most: int) -> list[Tick]:
    """Return up to about `most` ticks from `low` to `high`, e.g. `0 B`, `0.5 GiB`, `1.0 GiB`."""
    top = max(abs(low), abs(high), 1)
    unit = 0
    while unit < len(UNITS) - 1 and top >= 1024:
        top, unit = top // 1024, unit + 1
    # A small part of a large value needs a smaller unit, unless the numbers get too long for that.
    if max(abs(low), abs(high)) < EXACT:
        while unit and (high - low) / 1024**unit < most * LEAST_STEP:
            unit -= 1
    scale = 1024**unit
    span = max((high - low) / scale, 1e-9)
    step = _decimal_step(span / most, whole=unit == 0)
    ticks = []
    at = math.ceil(low / scale / step)
    while at * step <= high / scale * (1 + 1e-15):
        value = at * step
        text = f"{value:.1f}" if step < 1 else f"{value:.0f}"
        ticks.append(Tick(value * scale, f"{text} {UNITS[unit]}" if at else "0 B"))
        at += 1
    return [tick for tick in ticks if tick.at >= low]


def event_ticks(first: int, stop: int, most: int) -> list[Tick]:
    """Return up to about `most` ticks for events `first` to `stop` (exclusive)."""
    step = int(_decimal_step((stop - first) / most, whole=True))
    begin = -(-first // step) * step
    return [Tick(at, count(at)) for at in range(begin, stop, step)]


def elapsed_ticks(whole_us: int, most: int, start_us: int = 0) -> list[Tick]:
    """Return up to about `most` ticks from `start_us` to `whole_us` in one unit, e.g. `0.5 s`."""
    step = _time_step((whole_us - start_us) / most)
    unit, name = next(
        (unit, name)
        for unit, name, below in (
            (1, "us", 1_000),
            (1_000, "ms", _SECOND),
            (_SECOND, "s", 2 * _MINUTE),
            (_MINUTE, "min", 2 * _HOUR),
            (_HOUR, "h", None),
        )
        if below is None or whole_us < below
    )
    begin = -(-start_us // step) * step
    return [Tick(at, f"{at / unit:,.10g} {name}") for at in range(begin, whole_us + 1, step)]


def clock_ticks(start_us: int, stop_us: int, most: int) -> list[Tick]:
    """Return up to about `most` ticks at times in UTC, e.g. `10:15:02.5`."""
    step = _time_step((stop_us - start_us) / most)
    begin = -(-start_us // step) * step
    return [Tick(at, _clock(at, step)) for at in range(begin, stop_us + 1, step)]


def _clock(us: int, step: int) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=us)
    except OverflowError:  # the time in the file is bogus
        return f"{us} us"
    if step >= 24 * _HOUR:
        return f"{moment:%Y-%m-%d}"
    if step >= _MINUTE:
        return f"{moment:%H:%M}"
    if step >= _SECOND:
        return f"{moment:%H:%M:%S}"
    digits = next(n for n in range(1, 7) if step % 10 ** (6 - n) == 0)
    return f"{moment:%H:%M:%S}.{f'{moment:%f}'[:digits]}"


def _decimal_step(least: float, *, whole: bool) -> float:
    """Return the smallest of 0.1, 0.2, 0.5, 1, 2, 5, 10 … that isn't below `least`. If `whole`,
    only consider integers.
    """
    power = 1.0 if whole else 0.1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= least:
                return digit * power
        power *= 10


def _time_step(least: float) -> int:
    if least <= _SECOND:
        return int(_decimal_step(least, whole=True))
    for step in _CLOCK:
        if step >= least:
            return step
    return int(_decimal_step(least / (24 * _HOUR), whole=True)) * 24 * _HOUR
