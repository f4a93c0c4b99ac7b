"""Format bytes, counts, shares, durations and times."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def size(n_bytes: int) -> str:
    """Format a size in IEC units, with one decimal above bytes, e.g. `512 B` or `38.4 GiB`."""
    value, unit = float(abs(n_bytes)), 0
    # 1023.95 would be printed as 1024.0, so compare the rounded number.
    while unit < len(UNITS) - 1 and value >= (1024 if unit == 0 else 1023.95):
        value, unit = value / 1024, unit + 1
    sign = "-" if n_bytes < 0 else ""
    return f"{sign}{value:.0f} B" if unit == 0 else f"{sign}{value:.1f} {UNITS[unit]}"


def known_size(n_bytes: int | None) -> str:
    """Like `size`, but return a dash if the size is unknown."""
    return "-" if n_bytes is None else size(n_bytes)


def sizes(*n_bytes: int) -> tuple[str, ...]:
    """Format sizes so that different sizes look different; if necessary, in MiB or bytes."""
    words = tuple(map(size, n_bytes))
    different = len(set(n_bytes))
    if len(set(words)) < different:
        words = tuple(f"{one / (1 << 20):,.1f} MiB" for one in n_bytes)
    return words if len(set(words)) == different else tuple(f"{one:,} B" for one in n_bytes)


def signed_size(n_bytes: int) -> str:
    """Format a change in size, e.g. as `+1.5 MiB`, `-512 B` or `0 B`."""
    return f"+{size(n_bytes)}" if n_bytes > 0 else size(n_bytes)


def count(number: int) -> str:
    """Format a count, e.g. as `22,331`."""
    return f"{number:,}"


def signed_count(number: int) -> str:
    """Format a change in a count, e.g. as `+22,331`, `-5` or `0`."""
    return f"+{number:,}" if number > 0 else count(number)


def counted(number: int, noun: str) -> str:
    """Format a count with its noun, e.g. as `1 block` or `22,331 blocks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float) -> str:
    """Format a share from 0.0 to 1.0, e.g. as `42.1%`, or as `<0.1%` if it would round to zero."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share * 100:.1f}%"


def duration(us: int) -> str:
    """Format microseconds, for example as `250 us`, `0.412 s`, `2 min 03.5 s` or `1 h 02 min`."""
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
    """Format microseconds, with three digits for short times, e.g. `84 us`, `7.87 ms` or `1.25 s`.
    Longer times look as in `duration`.
    """
    if us < 1_000:
        return f"{us} us"
    if us < 999_995:
        return f"{us / 1e3:.2f} ms"
    return f"{us / 1e6:.2f} s" if us < 59_995_000 else duration(us)


def signed_duration(us: int) -> str:
    """Format a relative time, e.g. as `+0.412 s` or `-3 us`."""
    return duration(us) if us < 0 else f"+{duration(us)}"


def time_utc(us: int) -> str:
    """Format microseconds since the epoch, for example as `2026-07-12 16:40:22.412345 UTC`."""
    try:
        moment = _EPOCH + timedelta(microseconds=us)
    except OverflowError:  # the file has a bogus time
        return f"{us} us since 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S.%f} UTC"


def range_text(first: int, events: int, whole: int) -> str:
    """Describe the selected part of a trace, e.g. as `events 1,000 to 1,999 of 10,000`."""
    if events == 0:
        return f"none of {counted(whole, 'event')}"
    return f"events {count(first)} to {count(first + events - 1)} of {count(whole)}"


def change_text(base_bytes: int, new_bytes: int) -> str:
    """Return text such as `+355.7 MiB (+6.8%)`."""
    change = new_bytes - base_bytes
    words = signed_size(change)
    if base_bytes and change:
        words += f" ({'+' if change > 0 else '-'}{percent(abs(change) / base_bytes)})"
    return words
