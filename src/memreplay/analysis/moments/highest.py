"""Find the maximum of a measure within each of many ranges, without scanning every range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.engine.query._vectors import vector
from memreplay.engine.replay import _measures

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Usage

BLOCK = 4096  # number of events per precomputed maximum


class Highest:
    """Maxima of a measure within ranges of events."""

    def __init__(self, usage: Usage) -> None:
        self.usage = usage
        self.column = usage.column
        self.base = usage.replay.first_event
        stop = self.base + usage.replay.events
        self.blocks = vector(usage.ranges([*range(self.base, stop, BLOCK), stop])[1])

    def within(self, first: int, last: int) -> tuple[int, int]:
        """Return (bytes, event) of the first maximum among the states after events `first` to
        `last`.
        """
        best: tuple[int, int] | None = None
        if first < self.base:
            best = self.usage.start_bytes, first
        start, stop = max(first - self.base, 0), last - self.base
        whole, after = -(-start // BLOCK), (stop + 1) // BLOCK
        if after - whole < 2:
            pieces = [(start, stop)]
        else:
            at = whole + self.blocks[whole:after].argmax()
            pieces = [
                (start, whole * BLOCK - 1),
                (at * BLOCK, (at + 1) * BLOCK - 1),
                (after * BLOCK, stop),
            ]
        for begin, end in pieces:
            if begin <= end:
                n_bytes, event = _measures.highest(self.column, begin, end)
                if best is None or n_bytes > best[0]:
                    best = n_bytes, event + self.base
        assert best is not None  # `last` >= `first`, so there is at least one value
        return best
