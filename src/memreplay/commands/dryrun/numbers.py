"""The numbers that may be tried in a command, and the search for the largest one that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from memreplay.errors import UsageError


class Range(NamedTuple):
    """The numbers that may be tried."""

    low: int = 1
    high: int = 65536
    step: int = 1

    def below(self, value: int) -> int:
        """Return the largest possible number that isn't above `value`."""
        return self.low + (min(value, self.high) - self.low) // self.step * self.step


def parse_range(text: str) -> Range:
    """Parse `LOW:HIGH` or `LOW:HIGH:STEP`. Raises UsageError."""
    words = text.split(":")
    if len(words) not in (2, 3) or not all(word.isdecimal() and len(word) < 19 for word in words):
        raise UsageError(f"{text!r} isn't LOW:HIGH or LOW:HIGH:STEP, such as 8:512:8")
    found = Range(*map(int, words))
    if found.step < 1 or found.low > found.high:
        raise UsageError(f"{text!r} has no numbers: LOW must not be above HIGH, and STEP not 0")
    return found


def search(numbers: Range, fits: Callable[[int], bool | None]) -> None:
    """Call `fits` for numbers that double until one doesn't fit, then bisect. Stops at None."""
    good, bad, value = None, None, numbers.low
    while True:
        answer = fits(value)
        if answer is None:
            return
        good, bad = (value, bad) if answer else (good, value)
        if good is None:
            return
        if bad is None:
            value = numbers.below(max(2 * good, good + numbers.step))
            if value == good:
                return
        else:
            value = numbers.below((good + bad) // 2)
            if value == good:
                value = good + numbers.step
            if value >= bad:
                return
