"""Writes bytes, counts, shares, durations and times for people."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def size(n_bytes: int) -> str:
    """`512 B`, `38.4 GiB`: IEC units, one decimal above bytes, a minus sign where below zero."""
    value, unit = float(abs(n_bytes)), 0
    # 1023.95 would be written 1024.0: what counts is the number as it will be rounded.
    while unit < len(UNITS) - 1 and value >= (1024 if unit == 0 else 1023.95):
        value, unit = value / 1024, unit + 1
    sign = "-" if n_bytes < 0 else ""
    return f"{sign}{value:.0f} B" if unit == 0 else f"{sign}{value:.1f} {UNITS[unit]}"


def sizes(*n_bytes: int) -> tuple[str, ...]:
    """Each as `size`; in MiB, or else in bytes, where two that differ would look the same."""
    words = tuple(map(size, n_bytes))
    different = len(set(n_bytes))
    if len(set(words)) < different:
        words = tuple(f"{one / (1 << 20):,.1f} MiB" for one in n_bytes)
    return words if len(set(words)) == different else tuple(f"{one:,} B" for one in n_bytes)


def signed_size(n_bytes: int) -> str:
    """`+1.5 MiB`, `-512 B`, `0 B`: a size that is a change."""
    return f"+{size(n_bytes)}" if n_bytes > 0 else size(n_bytes)


def count(number: int) -> str:
    """`22,331`."""
    return f"{number:,}"


def signed_count(number: int) -> str:
    """`+22,331`, `-5`, `0`: a count that is a change."""
    return f"+{number:,}" if number > 0 else count(number)


def counted(number: int, noun: str) -> str:
    """`1 block`, `22,331 blocks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float) -> str:
    """`42.1%` of a share from 0.0 to 1.0; a share that would vanish in the rounding is `<0.1%`."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share * 100:.1f}%"


def duration(us: int) -> str:
    """`250 us`, `0.412 s`, `2 min 03.5 s`, `1 h 02 min`, of microseconds."""
    sign, us = ("-", -us) if us < 0 else ("", us)
    if us < 1_000:
        return f"{sign}{us} us"
    if us < 59_999_500:
        return f"{sign}{us / 1e6:.3f} s"
    tenths = (us + 50_000) // 100_000
    if tenths < 36_000:
        return f"{sign}{tenths // 600} min {tenths % 600 / 10:04.1f} s"
    minutes = (us + 30_000_000) // 60_000_000
    return f"{sign}{minutes // 60:,} h {minutes % 60:02d} min"


def fine_duration(us: int) -> str:
    """`84 us`, `7.87 ms`, `1.25 s`, then as `duration`: with as many digits as tell short ones."""
    if us < 1_000:
        return f"{us} us"
    if us < 999_995:
        return f"{us / 1e3:.2f} ms"
    return f"{us / 1e6:.2f} s" if us < 59_995_000 else duration(us)


def signed_duration(us: int) -> str:
    """`+0.412 s`, `-3 us`: a time relative to another."""
    return duration(us) if us < 0 else f"+{duration(us)}"


def time_utc(us: int) -> str:
    """`2026-07-12 16:40:22.412345 UTC` of microseconds since the epoch."""
    try:
        moment = _EPOCH + timedelta(microseconds=us)
    except OverflowError:  # not a time at all, but the file says so
        return f"{us} us since 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S.%f} UTC"


def range_words(first: int, events: int, whole: int) -> str:
    """`events 1,000 to 1,999 of 10,000`: which part of a trace was read."""
    if events == 0:
        return f"none of {counted(whole, 'event')}"
    return f"events {count(first)} to {count(first + events - 1)} of {count(whole)}"
