"""Compile user-supplied regular expressions and match them against frames."""

from __future__ import annotations

import re
import warnings
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memreplay.analysis.code.needles import Sieve
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.code.late import Late
    from memreplay.snapshot.snapshot import Snapshot


def compiled(pattern: str, what: str) -> re.Pattern[str]:
    """Compile a regular expression. Raises a UsageError that explains what's wrong; `what` names
    the expression.
    """
    try:
        with warnings.catch_warnings():
            # Python only warns about sets such as `[[a`, which later versions may interpret
            # differently.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{what} is not a regular expression: {error}") from None
    except (OverflowError, RecursionError):
        raise UsageError(
            f"{what} is not a usable regular expression: too large or nested too deeply"
        ) from None


def bits_of_frames(
    snap: Snapshot, patterns: Sequence[tuple[int, re.Pattern[str] | Late]]
) -> array[int]:
    """Return for each frame the bits of the patterns found in its `file:function`, as uint64.

    Each `file:function` is searched only once, even if many of its lines are frames.
    """
    code = snap.code
    if not patterns:
        return array("Q", bytes(8 * code.frames))
    known: dict[tuple[int, int], int] = {}
    texts: list[str] = []
    of_frame: list[int] = []
    for i in range(code.frames):
        function, file, _ = code.frame(i)
        number = known.get((function, file))
        if number is None:
            number = known[function, file] = len(texts)
            texts.append(f"{code.string(file)}:{code.string(function)}")
        of_frame.append(number)
    of_text: list[int] = []
    for text, left in zip(
        texts, Sieve(pattern for _, pattern in patterns).left(texts), strict=True
    ):
        bits = 0
        while left:
            bit, pattern = patterns[(left & -left).bit_length() - 1]
            left &= left - 1
            if pattern.search(text):
                bits |= bit
        of_text.append(bits)
    return array("Q", [of_text[number] for number in of_frame])
