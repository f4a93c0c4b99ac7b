"""Reject regular expressions that could take forever, because matching blocks the server."""

from __future__ import annotations

from memreplay.errors import UsageError

LONGEST = 200  # in characters
MOST_REPEATS = 4  # each repeat can multiply the time by the name's length
_REPEATS = "*+?{"


def checked_pattern(name: str, pattern: str) -> str:
    """Return the pattern. Raises UsageError if it's too long, has too many repeats, or repeats a
    group with a repeat or alternative.

    For example, (a+)+ takes minutes on a name of 30 characters.
    """
    if len(pattern) > LONGEST:
        raise UsageError(f"{name}: patterns may have at most {LONGEST} characters")
    found = _Scan(pattern)
    if found.is_nested:
        raise UsageError(
            f"{name}: a repeated group can't contain a repeat or |, because it may never finish"
        )
    if found.repeats > MOST_REPEATS:
        raise UsageError(f"{name}: patterns may have at most {MOST_REPEATS} repeats (* + ? {{}})")
    if found.is_unclear:
        raise UsageError(f"{name}: flag x, comments, conditions and backreferences aren't allowed")
    return pattern


class _Scan:
    """Scans a pattern for repeats. `re` rejects invalid patterns."""

    def __init__(self, pattern: str) -> None:
        self.repeats = 0
        self.is_nested = False
        self.is_unclear = False
        groups = [False]  # for each open group, whether it contains a repeat or an alternative
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
                # `+?` and `++` are a single repeat with a modifier.
                self.repeats += 1
                groups[-1] = True
                at = _end_of_repeat(pattern, at, letter)


def _end_of_set(pattern: str, at: int) -> int:
    r"""Return the index after the character set that starts before `at`: [^]a\]]."""
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
