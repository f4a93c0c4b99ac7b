"""Refuses patterns that may take for ever: while Python matches one, the server answers nobody."""

from __future__ import annotations

from memreplay.errors import UsageError

LONGEST = 200  # letters
MOST_REPEATS = 4  # each multiplies the time by the length of a name
_REPEATS = "*+?{"


def checked_pattern(name: str, pattern: str) -> str:
    """The pattern. Raises UsageError for one that is too long, has too many repeats, or repeats a
    group that has a repeat or a choice in it: (a+)+ tries a name of 30 letters for minutes."""
    if len(pattern) > LONGEST:
        raise UsageError(f"{name}: a pattern has at most {LONGEST} letters here")
    found = _Scan(pattern)
    if found.is_nested:
        raise UsageError(
            f"{name}: a group that repeats may hold no repeat and no | here: it may take for ever"
        )
    if found.repeats > MOST_REPEATS:
        raise UsageError(f"{name}: a pattern has at most {MOST_REPEATS} repeats (* + ? {{}}) here")
    if found.is_unclear:
        raise UsageError(f"{name}: no flag x, comments, conditions or references to groups here")
    return pattern


class _Scan:
    """What repeats in a pattern. One that is none is for `re` to refuse."""

    def __init__(self, pattern: str) -> None:
        self.repeats = 0
        self.is_nested = False
        self.is_unclear = False
        groups = [False]  # whether each open one has a repeat or a choice in it
        at = 0
        while at < len(pattern):
            letter, following = pattern[at], pattern[at + 1 : at + 2]
            at += 1
            if letter == "\\":
                at += 1
                self.is_unclear = self.is_unclear or following in tuple("123456789")
            elif letter == "[":
                at = _end_of_set(pattern, at)
            elif letter == "(":
                groups.append(False)
                if following == "?":
                    at += 1
                    flags = pattern[at:].partition(")")[0].partition(":")[0]
                    word = flags[:1]
                    unclear = word in ("#", "(") or flags.startswith("P=")
                    self.is_unclear |= unclear or (word not in tuple("P<=!>") and "x" in flags)
            elif letter == ")" and len(groups) > 1:
                inner = groups.pop()
                self.is_nested |= inner and following in tuple("*+{")
                groups[-1] |= inner
            elif letter == "|":
                groups[-1] = True
            elif letter in _REPEATS:
                # `+?` and `++` are one repeat with a mark behind it.
                self.repeats += 1
                groups[-1] = True
                at = _end_of_repeat(pattern, at, letter)


def _end_of_set(pattern: str, at: int) -> int:
    """Behind the set of letters that begins before `at`: [^]a\\]]."""
    at += pattern[at : at + 1] == "^"
    at += pattern[at : at + 1] == "]"
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _end_of_repeat(pattern: str, at: int, letter: str) -> int:
    if letter == "{":
        while at < len(pattern) and pattern[at] in "0123456789,}":
            at += 1
            if pattern[at - 1] == "}":
                break
    return at + (pattern[at : at + 1] in tuple("?+"))
