"""Regular expressions that people give: read, and searched in the frames of a snapshot."""

from __future__ import annotations

import re
import warnings
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memreplay.analysis.needles import may_match, needles
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.snapshot import Snapshot


def compiled(pattern: str, what: str) -> re.Pattern[str]:
    """The regular expression. Raises UsageError that says what it is: `what` and its mistake."""
    try:
        with warnings.catch_warnings():
            # A set that a later Python may read otherwise (`[[a]`) is no mistake yet.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{what} is no regular expression: {error}") from None
    except (OverflowError, RecursionError):
        raise UsageError(
            f"{what} is no regular expression: too large, or nested too deep"
        ) from None


def bits_of_frames(snap: Snapshot, patterns: Sequence[tuple[int, re.Pattern[str]]]) -> array[int]:
    """Of each frame the bits of those that are found in its `file:function`, as u64.

    Each text is searched once, however many lines of it are frames.
    """
    native = snap.native
    needed = [(bit, pattern, needles(pattern)) for bit, pattern in patterns]
    known: dict[tuple[int, int], int] = {}
    found = array("Q", bytes(8 * native.n_frames))
    for i in range(native.n_frames if patterns else 0):
        function, file, _ = native.frame(i)
        bits = known.get((function, file))
        if bits is None:
            text = f"{native.string(file)}:{native.string(function)}"
            small = text.lower() if text.isascii() else text
            bits = sum(
                {
                    bit
                    for bit, pattern, wanted in needed
                    if may_match(wanted, small) and pattern.search(text)
                }
            )
            known[function, file] = bits
        found[i] = bits
    return found
