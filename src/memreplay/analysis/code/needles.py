"""Find substrings that every match of a regular expression contains, as a cheap pre-filter."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from memreplay.analysis.code.late import Late

if sys.version_info >= (3, 11):
    import re._constants as constants
    import re._parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

_REPEATS = {constants.MAX_REPEAT, constants.MIN_REPEAT, getattr(constants, "POSSESSIVE_REPEAT", 0)}
_ATOMIC = getattr(constants, "ATOMIC_GROUP", None)


def needles(pattern: re.Pattern[str] | Late) -> tuple[str, ...] | None:
    """Return lower-case substrings, at least one of which occurs in every lower-cased ASCII match;
    None if unknown.
    """
    flags = pattern.flags if isinstance(pattern, re.Pattern) else 0
    tree: Any = parser.parse(pattern.pattern, flags)
    found = _of(tree)
    return None if found is None else tuple(sorted(found))


class Sieve:
    """A set of patterns. Finds which of them are worth searching in a text."""

    def __init__(self, patterns: Iterable[re.Pattern[str] | Late]) -> None:
        self._all = self._always = 0
        self._of_needle: dict[str, int] = {}
        for number, pattern in enumerate(patterns):
            known = pattern.needles if isinstance(pattern, Late) else None
            wanted = known or needles(pattern)
            self._all |= 1 << number
            if wanted is None:
                self._always |= 1 << number
            for needle in wanted or ():
                self._of_needle[needle] = self._of_needle.get(needle, 0) | 1 << number

    def left(self, texts: Sequence[str]) -> list[int]:
        """Return for each text the patterns that may match, one bit per pattern.

        Searches all texts as one string, because one long search is cheaper than many short ones.
        """
        # Other alphabets have letters that match ASCII letters when case is ignored.
        found = [self._always if text.isascii() else self._all for text in texts]
        starts = list(accumulate((len(text) + 1 for text in texts), initial=0))
        whole = "\0".join(texts)
        small = whole.lower()
        # `lower()` turned one letter into two, which shifts the positions after it.
        if len(small) != len(whole):
            small = "".join(c.lower() if c.isascii() else c for c in whole)
        for needle, bits in self._of_needle.items():
            at = small.find(needle)
            while at >= 0:
                text = bisect_right(starts, at) - 1
                found[text] |= bits
                at = small.find(needle, starts[text + 1])
        return found


def _of(sequence: Iterable[Any]) -> frozenset[str] | None:
    """Return the best needles of any part of a sequence: those with the longest shortest needle, or
    in a tie, the fewest.
    """
    said: list[frozenset[str]] = []
    run = ""
    for op, value in sequence:
        if op is constants.LITERAL and 0 < value < 128:  # 0 separates strings
            run += chr(value).lower()
            continue
        if run:
            said.append(frozenset((run,)))
            run = ""
        inner = _inside(op, value)
        if inner is not None:
            said.append(inner)
    if run:
        said.append(frozenset((run,)))
    return max(said, key=lambda one: (min(map(len, one)), -len(one)), default=None)


def _inside(op: Any, value: Any) -> frozenset[str] | None:
    if op is constants.SUBPATTERN:
        return _of(value[-1])
    if op is constants.BRANCH:
        branches = [_of(one) for one in value[1]]
        known = [one for one in branches if one is not None]
        return frozenset[str]().union(*known) if len(known) == len(branches) else None
    if op in _REPEATS and value[0] >= 1:
        return _of(value[2])
    return _of(value) if op is _ATOMIC and _ATOMIC is not None else None
