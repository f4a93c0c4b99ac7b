"""Sources of choices: a seeded generator, or hypothesis, which can shrink them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Chooser:
    """Makes choices. The first option is always the simplest, so shrinking leads to it."""

    def __init__(self) -> None:
        self._gaps: dict[int, int] = {}

    def below(self, n: int) -> int:
        """Return a number from 0 to n - 1."""
        raise NotImplementedError

    def pick(self, several: Sequence[T]) -> T:
        """Return one of several values."""
        return several[self.below(len(several))]

    def chance(self, n: int) -> bool:
        """Return True with a chance of 1 in n."""
        return n > 0 and self.below(n) == n - 1

    def rarely(self, n: int) -> bool:
        """Return True with a chance of about 1 in n, or never if n is 0."""
        if n <= 0:
            return False
        left = self._gaps.get(n)
        if left is None:
            left = 2 * n - 1 - self.below(2 * n)
        self._gaps[n] = left - 1
        if left > 0:
            return False
        del self._gaps[n]
        return True


class Seeded(Chooser):
    """Choices from a seed: thousands of inputs a minute."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed).random

    def below(self, n: int) -> int:
        return int(self._random() * n)


class Drawn(Chooser):
    """Choices drawn by hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__()
        self._draw = draw

    def below(self, n: int) -> int:
        return self._draw(_below(n)) if n > 1 else 0


@cache
def _below(n: int) -> st.SearchStrategy[Any]:
    return st.integers(0, n - 1)
