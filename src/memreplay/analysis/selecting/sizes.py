"""Parse sizes and shares from the command line or configuration."""

from __future__ import annotations

import re

from memreplay.errors import UsageError

# `38GiB`, `38 GB`, `64K`, `1.5 MiB`, `4096B`, `41_000_000 B`, `40e9B`.
_NUMBER = r"(?P<number>\d{1,18}(?:_\d{1,18})*(?:\.\d{0,9})?)"
# Compiled on demand, because most commands aren't given a size.
_SIZE = (
    rf"{_NUMBER}(?:(?:[eE]\+?(?P<power>\d{{1,2}}))?(?P<plain> ?B)?"
    r"| ?(?P<unit>[KMGT])(?P<binary>i?)(?P<bytes>B?))"
)
_SHARE = r"(?P<number>\d{1,9}(?:\.\d{0,9})?) ?%"
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}
MOST_BYTES = 2**62
_PARTS = 10**11  # percentages can have up to nine decimals


class SizeError(UsageError, ValueError):
    """The text isn't a size or share. The message says what to write instead."""


def parse_size(given: object) -> int:
    """Parse a size with a unit, or 0, to bytes.

    KiB, MiB, GiB and TiB, as well as K, M, G and T, are powers of 1,024; KB, MB, GB and TB are
    powers of 1,000; B is bytes. Fractions of a byte are dropped. A bare number is an error, because
    `8` rarely means 8 bytes. Raises SizeError.
    """
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 <= given < MOST_BYTES:
        if given == 0:
            return 0
        if given == int(given):  # TOML parses 40e9 as a float
            raise _without_unit(str(given), str(int(given)))
    match = _matched(_SIZE, given, re.IGNORECASE | re.ASCII)
    if match is None or _digits(match) > 18:
        raise SizeError(f"{_shown(given)} is not a size; give 38GiB, 38GB (1000s), 512MiB or 64B")
    digits, scale = _decimal(match)
    if match["unit"]:
        decimal = match["bytes"] and not match["binary"]
        digits *= (1000 if decimal else 1024) ** _POWERS[match["unit"].upper()]
    if match["power"]:
        digits *= 10 ** int(match["power"])
    if digits // scale >= MOST_BYTES:
        raise SizeError(f"{_shown(given)} is too large")
    if digits and not match["unit"] and not match["plain"]:
        raise _without_unit(repr(given), match[0])
    return digits // scale


def parse_share(given: object) -> float:
    """Parse `2%` to 0.02. Raises SizeError for anything else. Numbers without `%`, such as 0.02 or
    2, would be ambiguous.
    """
    match = _matched(_SHARE, given, re.ASCII)
    if match is None:
        raise SizeError(f"{_shown(given)} is not a percentage; give 2% or 0.5%")
    digits, scale = _decimal(match)
    return digits / (100 * scale)


def _matched(pattern: str, given: object, flags: re.RegexFlag) -> re.Match[str] | None:
    if isinstance(given, str) and len(given) < 80:
        return re.fullmatch(pattern, given.strip(), flags)
    return None


def share_of(n_bytes: int, share: float) -> int:
    """Multiply bytes by a share, using exact decimal arithmetic: 29% of 100 B is 29 B, although 100
    * 0.29 is slightly less.

    Fractions of a byte are dropped.
    """
    return n_bytes * round(share * _PARTS) // _PARTS


def _without_unit(shown: str, number: str) -> SizeError:
    likely = f"{number}GiB" if re.fullmatch(r"[\d.]{1,4}", number) else "38GiB"
    return SizeError(f"{shown} has no unit; give {likely} (or MiB, KiB), or {number}B for bytes")


def _decimal(match: re.Match[str]) -> tuple[int, int]:
    """Parse a decimal number to (integer, divisor)."""
    whole, _, part = match["number"].replace("_", "").partition(".")
    return int(whole + part), 10 ** len(part)


def _digits(match: re.Match[str]) -> int:
    """Count the digits after the decimal point."""
    return len(match["number"].partition(".")[0].replace("_", ""))


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:59]}…"
