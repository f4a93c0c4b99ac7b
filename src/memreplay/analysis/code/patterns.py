"""Search frames for regular expressions: memreplay's own in native code, users' in linear time."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

from memreplay.engine.query._regex import Regexes
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memreplay.analysis.code.linear import Linear
    from memreplay.snapshot.snapshot import Snapshot


def compiled(pattern: str, what: str) -> Linear:
    """Compile a regular expression. Raises a UsageError that explains what's wrong; `what` names
    the expression.
    """
    from memreplay.analysis.code.linear import Linear, UnsupportedError  # most commands have none

    try:
        with warnings.catch_warnings():
            # Python only warns about sets such as `[[a`, which later versions may interpret
            # differently.
            warnings.simplefilter("ignore", FutureWarning)
            return Linear(pattern, what)
    except (re.error, ValueError) as error:  # ValueError for flags that exclude one another
        raise UsageError(f"{what} is not a regular expression: {error}") from None
    except UnsupportedError:
        raise UsageError(
            f"{what} can't be searched for in bounded time: leave out backreferences, conditions,"
            " atomic groups, possessive repeats, and looking more than one character ahead or"
            " behind"
        ) from None
    except (OverflowError, RecursionError):
        raise UsageError(
            f"{what} is not a usable regular expression: too large or nested too deeply"
        ) from None


def regexes(*patterns: tuple[int, str]) -> Regexes:
    """Prepare memreplay's own regular expressions, each with its bits, for native code.

    `re` would take longer to compile them than all other work on a small file takes. Only texts
    that aren't ASCII are left to it.
    """

    def otherwise(text: str) -> int:
        found = 0
        for bits, pattern in patterns:
            found |= bits if re.search(pattern, text) else 0
        return found

    return Regexes(patterns, otherwise)


class Patterns:
    """Regular expressions to search together, each with its bits. `own`: memreplay's own. `given`:
    a user's.
    """

    def __init__(self, own: Iterable[tuple[int, str]], given: Iterable[tuple[int, Linear]]) -> None:
        self._own = regexes(*own)
        self._given = tuple(given)

    def search(self, text: str) -> int:
        """Return the bits of all expressions found in a text."""
        return self._own.search(text) | self._of_given(text)

    def of_frames(self, snap: Snapshot) -> list[int]:
        """Return for each frame the bits of the expressions found in its `file:function`."""
        found: list[int] = memoryview(self._own.of_frames(snap.native)).tolist()
        if not self._given:
            return found
        for _, pattern in self._given:
            pattern.spent_s = 0.0  # the limit is per file
        code = snap.code
        # Each `file:function` is searched only once, even if many of its lines are frames.
        known: dict[tuple[int, int], int] = {}
        for i in range(code.frames):
            function, file, _ = code.frame(i)
            bits = known.get((function, file))
            if bits is None:
                bits = self._of_given(f"{code.string(file)}:{code.string(function)}")
                known[function, file] = bits
            found[i] |= bits
        return found

    def _of_given(self, text: str) -> int:
        found = 0
        for bits, pattern in self._given:
            if pattern.search(text):
                found |= bits
        return found
