"""Search texts for a user's regular expression in time proportional to their length.

Python's `re` tries one way after another, which can take forever. This follows all ways at once, as
a nondeterministic automaton whose sets of states are cached. It reads Python's syntax, without what
would need more: backreferences, conditionals, atomic groups, possessive repeats, and looking more
than one character ahead or behind.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from itertools import dropwhile
from typing import Any

from memreplay.errors import UsageError

if sys.version_info >= (3, 11):
    from re import _constants as ops
    from re import _parser as parser
else:
    import sre_constants as ops
    import sre_parse as parser

MOST_STATES = 10_000
MOST_SECONDS = 10.0
_MOST_PARTS = 10 * MOST_STATES  # of an expression, including those that need no states
_MOST_CACHED = 500_000  # states in sets, and steps between sets
_MOST_SIMPLE = 100  # characters to compare at each place in a text
_LOOK = 4096  # characters between looks at the clock

IsOne = Callable[[str], bool]
# Whether a place in a text, given by the characters before and after it ("" at the ends) and the
# number of characters after it, satisfies a condition.
IsPlace = Callable[[str, str, int], bool]


class UnsupportedError(Exception):
    """The expression has syntax that can't be searched for in linear time."""


class Linear:
    """A regular expression; `search` says whether a text contains it. `what` names it in errors.

    Raises re.error, UnsupportedError, OverflowError or RecursionError for an unusable expression.
    """

    def __init__(self, pattern: str, what: str) -> None:
        self.what = what
        self.spent_s = 0.0
        tree: Any = parser.parse(pattern)
        self._simple = re.compile(pattern) if _is_fast(tree) else None
        if self._simple is not None:
            return
        self._program = _Program(tree, tree.state.flags)
        self._look = max(_LOOK // (1 + len(self._program.places)), 1)
        self._begin = _Kernel(frozenset((self._program.start,)))
        self._kernels = {self._begin.states: self._begin}
        self._cached = 0

    def search(self, text: str) -> bool:
        """Return whether the text contains a match.

        Raises UsageError if all searches since `spent_s` was 0 took longer than MOST_SECONDS.
        """
        started = time.perf_counter()
        self._check(started)
        try:
            if self._simple is not None:
                return self._simple.search(text) is not None
            return self._search(text, started)
        finally:
            self.spent_s += time.perf_counter() - started

    def _search(self, text: str, started: float) -> bool:
        program, kernel = self._program, self._begin
        places = program.places
        length = len(text)
        bits = 0
        for i in range(length + 1):
            if places:
                before, after = text[i - 1 : i] if i else "", text[i : i + 1]
                bits = sum(
                    1 << k for k, place in enumerate(places) if place(before, after, length - i)
                )
            node = kernel.nodes.get(bits)
            if node is None:
                node = kernel.nodes[bits] = program.closed(kernel.states, bits)
                self._check(started)
            if node.is_match:
                return True
            if i == length:
                break
            letter = text[i]
            following = node.following.get(letter)
            if following is None:
                following = node.following[letter] = self._kernel(node.after(letter))
            kernel = following
            if i % self._look == 0:
                self._check(started)
        return False

    def _kernel(self, states: frozenset[int]) -> _Kernel:
        """Return the kernel for states that a new step leads to."""
        if self._cached > _MOST_CACHED:
            for kernel in list(self._kernels.values()):
                kernel.nodes.clear()  # they refer to one another
            self._begin = _Kernel(self._begin.states)
            self._kernels = {self._begin.states: self._begin}
            self._cached = 0
        self._cached += 1
        found = self._kernels.get(states)
        if found is None:
            found = self._kernels[states] = _Kernel(states | self._begin.states)
            self._cached += len(states)
        return found

    def _check(self, started: float) -> None:
        if self.spent_s + time.perf_counter() - started > MOST_SECONDS:
            raise UsageError(
                f"{self.what}: searching the names in this file took longer than"
                f" {MOST_SECONDS:g} s; use a simpler expression"
            )


class _Kernel:
    """States reached after a character, and for each kind of place what can follow."""

    __slots__ = ("nodes", "states")

    def __init__(self, states: frozenset[int]) -> None:
        self.states = states
        self.nodes: dict[int, _Node] = {}


class _Node:
    """The states that wait for a character at a place."""

    __slots__ = ("following", "is_match", "waiting")

    def __init__(self, waiting: list[tuple[IsOne, int]], *, is_match: bool) -> None:
        self.waiting = waiting
        self.is_match = is_match
        self.following: dict[str, _Kernel] = {}

    def after(self, letter: str) -> frozenset[int]:
        return frozenset(following for is_one, following in self.waiting if is_one(letter))


class _Program:
    """The automaton: for each state either the next states, or a condition and the next state."""

    def __init__(self, tree: Any, flags: int) -> None:
        self._steps: dict[int, tuple[int, ...]] = {}
        self._letters: dict[int, tuple[IsOne, int]] = {}
        self._conditions: dict[int, tuple[int, int]] = {}
        self.places: list[IsPlace] = []
        self._known: dict[tuple[Any, str, int], int] = {}
        self._count = self._parts = 0
        self._end = self._state()
        self.start = self._sequence(tree, flags, self._end)

    def closed(self, states: frozenset[int], bits: int) -> _Node:
        """Return what can follow some states at a place that meets some conditions."""
        seen = set(states)
        left = list(states)
        while left:
            state = left.pop()
            following = self._steps.get(state, ())
            condition = self._conditions.get(state)
            if condition is not None and bits >> condition[0] & 1:
                following = (condition[1],)
            for one in following:
                if one not in seen:
                    seen.add(one)
                    left.append(one)
        waiting = [self._letters[one] for one in seen if one in self._letters]
        return _Node(waiting, is_match=self._end in seen)

    def _state(self) -> int:
        self._count += 1
        if self._count > MOST_STATES:
            raise OverflowError
        return self._count

    def _letter(self, is_one: IsOne, then: int) -> int:
        state = self._state()
        self._letters[state] = is_one, then
        return state

    def _place(self, op: Any, argument: Any, flags: int, then: int) -> int:
        state = self._state()
        key = op, str(argument), flags
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.places)
            self.places.append((_at if op is ops.AT else _beside)(op, argument, flags))
        self._conditions[state] = number, then
        return state

    def _either(self, *ways: int) -> int:
        state = self._state()
        self._steps[state] = ways
        return state

    def _sequence(self, items: Any, flags: int, then: int) -> int:
        """Add the states for a sequence, last item first. Return its first state."""
        self._parts += 1 + len(items)
        if self._parts > _MOST_PARTS:
            raise OverflowError
        for op, argument in reversed(list(items)):
            then = self._item(op, argument, flags, then)
        return then

    def _item(self, op: Any, argument: Any, flags: int, then: int) -> int:
        is_one = _one(op, argument, flags)
        if is_one is not None:
            return self._letter(is_one, then)
        if op is ops.BRANCH:
            return self._either(*(self._sequence(way, flags, then) for way in argument[1]))
        if op is ops.SUBPATTERN:
            _, added, removed, inner = argument
            kept = flags & ~_KINDS if added & _KINDS else flags
            return self._sequence(inner, (kept | added) & ~removed, then)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            return self._repeat(argument, flags, then)
        if op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
            return self._place(op, argument, flags, then)
        raise UnsupportedError

    def _repeat(self, argument: tuple[int, Any, Any], flags: int, then: int) -> int:
        least, most, inner = argument
        if most is ops.MAXREPEAT:
            loop = self._state()
            self._steps[loop] = (self._sequence(inner, flags, loop), then)
            then = loop
        else:
            end = then
            for _ in range(most - least):
                then = self._either(self._sequence(inner, flags, then), end)
        for _ in range(least):
            then = self._sequence(inner, flags, then)
        return then


def _is_fast(tree: Any) -> bool:
    """Return whether `re` takes linear time: there is only one way to match, which compares few
    characters at each place. Letters at the start are compared only once.
    """
    is_cased = not tree.state.flags & re.IGNORECASE
    rest = dropwhile(lambda item: is_cased and item[0] is ops.LITERAL, tree)
    return all(map(_is_simple, tree)) and sum(1 for _ in rest) <= _MOST_SIMPLE


def _is_simple(item: tuple[Any, Any]) -> bool:
    """Return whether an item is one character or a condition on a place."""
    op, argument = item
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return len(argument[1]) == 1 and argument[1][0][0] in _ONES
    return op in (*_ONES, ops.AT)


def _one(op: Any, argument: Any, flags: int) -> IsOne | None:
    """Return the test for an item that matches one character, or None for another item.

    The test for each character is Python's own, so that sets, cases and Unicode mean the same.
    """
    if op not in _ONES:
        return None
    found = re.compile(_spelled(op, argument), flags & (re.IGNORECASE | re.DOTALL | re.ASCII))
    return found.match  # type: ignore[return-value]  # truth is enough


def _spelled(op: Any, argument: Any) -> str:
    """Spell a one-character item as an expression."""
    if op is ops.ANY:
        return "."
    if op is ops.LITERAL:
        return f"[{_escaped(argument)}]"
    if op is ops.NOT_LITERAL:
        return f"[^{_escaped(argument)}]"
    return f"[{''.join(_spelled_part(*part) for part in argument)}]"


def _spelled_part(op: Any, argument: Any) -> str:
    if op is ops.NEGATE:
        return "^"
    if op is ops.LITERAL:
        return _escaped(argument)
    if op is ops.RANGE:
        return f"{_escaped(argument[0])}-{_escaped(argument[1])}"
    return _CATEGORIES[argument]


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


_ONES = (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN)
_KINDS = re.ASCII | re.UNICODE  # one of which applies
_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}


def _at(_op: Any, where: Any, flags: int) -> IsPlace:
    """Return the test for an anchor."""
    word = re.compile(r"\w", flags & re.ASCII).match
    lines = flags & re.MULTILINE

    def is_boundary(before: str, after: str, _left: int) -> bool:
        return bool(before and word(before)) != bool(after and word(after))

    if where is ops.AT_BOUNDARY:
        return is_boundary
    if where is ops.AT_NON_BOUNDARY:
        # An empty text has none before Python 3.14.
        is_new = sys.version_info >= (3, 14)
        return lambda before, after, left: (
            not is_boundary(before, after, left) and bool(before or after or is_new)
        )
    if where is ops.AT_BEGINNING and lines:
        return lambda before, _after, _left: before in ("", "\n")
    if where in (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING):
        return lambda before, _after, _left: not before
    if where is ops.AT_END and lines:
        return lambda _before, after, _left: after in ("", "\n")
    if where is ops.AT_END:
        return lambda _before, after, left: not left or (left == 1 and after == "\n")
    return lambda _before, _after, left: not left


def _beside(op: Any, argument: tuple[int, Any], flags: int) -> IsPlace:
    """Return the test for looking at one character ahead or behind."""
    direction, inner = argument
    is_one = None
    for inner_op, inner_argument in inner:
        is_one = _one(inner_op, inner_argument, flags)
    if len(inner) != 1 or is_one is None:
        raise UnsupportedError
    is_wanted = op is ops.ASSERT

    def is_beside(before: str, after: str, _left: int) -> bool:
        letter = after if direction > 0 else before
        return bool(letter and is_one(letter)) is is_wanted

    return is_beside
