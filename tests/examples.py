"""The number of random examples, for tests that don't use the profile's number."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100  # hypothesis' own default


def examples(count: int) -> int:
    """Return `count`, scaled by the profile."""
    return min(count, max(1, count * settings().max_examples // USUAL))
