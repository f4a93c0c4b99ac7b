"""What a text must have for a regular expression to be found in it: cheaper than to search."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

if sys.version_info >= (3, 11):
    import re._constants as constants
    import re._parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

_REPEATS = {constants.MAX_REPEAT, constants.MIN_REPEAT, getattr(constants, "POSSESSIVE_REPEAT", 0)}
_ATOMIC = getattr(constants, "ATOMIC_GROUP", None)


def needles(pattern: re.Pattern[str]) -> tuple[str, ...] | None:
    """Texts in small letters, one of which any ASCII text in small letters has, if the pattern is
    found in it; None where nothing is known. So what has none need not be searched.
    """
    tree: Any = parser.parse(pattern.pattern, pattern.flags)
    found = _of(tree)
    return None if found is None else tuple(sorted(found))


def may_match(wanted: tuple[str, ...] | None, text: str) -> bool:
    """Whether `text`, in small letters where it is ASCII, has what the pattern needs."""
    # Other alphabets have letters that are the same as ASCII's without regard to case.
    return wanted is None or not text.isascii() or any(needle in text for needle in wanted)


def _of(sequence: Iterable[Any]) -> frozenset[str] | None:
    """The best that any part of a sequence says: the longest needles, and of these the fewest."""
    said: list[frozenset[str]] = []
    run = ""
    for op, value in sequence:
        if op is constants.LITERAL and value < 128:
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
