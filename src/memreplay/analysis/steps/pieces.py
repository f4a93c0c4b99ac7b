"""The steps of a device, as rows of its events."""

from __future__ import annotations

from typing import NamedTuple

from memreplay.analysis.steps.records import StepSource

# More steps than these are taken together, several to one.
MOST_STEPS = 4096


class Piece(NamedTuple):
    """A step's events, counted from the first that was read: from `first` to before `stop`.

    Times are those of the annotation, None where there is none.
    """

    first: int
    stop: int
    name: str = ""
    start_us: int | None = None
    end_us: int | None = None


class Found(NamedTuple):
    """The steps of a device, in order; none where `source` is None, and `missing` says why."""

    source: StepSource | None
    pieces: tuple[Piece, ...]
    missing: str = ""


def taken_together(steps: int, most: int = 0) -> int:
    """Return how many steps become one, so that no more than `most` are left; 0: MOST_STEPS."""
    return -(-steps // (most or MOST_STEPS))


def together(source: StepSource, pieces: tuple[Piece, ...], most: int = 0) -> Found:
    """Return these steps, several as one if there are more than `most`; 0: MOST_STEPS."""
    count = taken_together(len(pieces), most)
    if count <= 1:
        return Found(source, pieces)
    merged = tuple(
        Piece(group[0].first, group[-1].stop, group[0].name, group[0].start_us, group[-1].end_us)
        for group in (pieces[k : k + count] for k in range(0, len(pieces) - count + 1, count))
    )
    count *= source.taken_together
    return Found(StepSource(source.kind, source.name, source.score, count), merged)
