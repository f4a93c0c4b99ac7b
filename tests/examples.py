"""How many random examples a test takes that says so by itself."""

from __future__ import annotations

from hypothesis import settings

USUAL = 100  # where a test does not say


def examples(count: int) -> int:
    """`count`, or the share of it that a profile takes of the usual number."""
    return min(count, max(1, count * settings().max_examples // USUAL))
