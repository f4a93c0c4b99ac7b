"""Finds the steps of a training or inference loop: from annotations, else from the trace itself."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.annotations import spans
from memreplay.analysis.trust import overflowed
from memreplay.errors import UsageError
from memreplay.results.steps import StepSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.model import Span
    from memreplay.replay import Replay, Usage
    from memreplay.snapshot import Snapshot

PROFILER_STEP = "ProfilerStep"
OPTIMIZER_STEP = "Optimizer.step"
# More steps than these are taken together, several to one.
MOST_STEPS = 4096
# What is found in the trace alone with a lower score is no step.
LEAST_SCORE = 0.1
WINDOWS = 20

_ADVICE = (
    "annotate steps with torch.profiler.record_function() and name them with --step-annotation,"
    " record more of them, or give --period"
)


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


def find_steps(
    snap: Snapshot, usage: Usage, *, annotation: str | None = None, period: int | None = None
) -> Found:
    """The steps of a device: as asked for, else from annotations, else from what repeats.

    Raises UsageError for a period that cannot be.
    """
    replay = usage.replay
    if annotation is not None and period is not None:
        raise UsageError("steps are given by an annotation or by a period, not by both")
    if period is not None:
        if period < 1:
            raise UsageError("a period is of 1 event or more")
        return _equal(replay.events, period)
    if replay.events == 0:
        return Found(None, (), "no events were recorded")
    every = spans(snap, replay)
    lost = overflowed(snap, replay.device)
    if lost is None and usage.start_bytes == 0:
        lost = False
    only = ""
    for name in (annotation,) if annotation is not None else (PROFILER_STEP, OPTIMIZER_STEP):
        named = _named(every, name)
        if annotation is not None and not named:
            return Found(None, (), _no_such(snap, replay, every, annotation))
        pieces = _pieces(replay, named, name, lost=lost)
        if len(pieces) > 1:
            return _together(StepSource("annotation", name, 1.0), pieces, MOST_STEPS)
        if annotation is not None:
            whole = "1 whole step" if pieces else "no whole step"
            words = f"annotation {name!r} marks {whole} in this recording; record two or more"
            return Found(None, (), words)
        only = only or (name if pieces else "")
    return _repeated(usage, only)


def windows(usage: Usage, count: int = WINDOWS) -> Found:
    """Equal parts of the trace, for want of steps."""
    events = usage.replay.events
    cuts = [events * k // count for k in range(count + 1)]
    pieces = tuple(Piece(a, b) for a, b in pairwise(cuts) if b > a)
    if len(pieces) < count:
        there = f"{events} events are" if events != 1 else "1 event is"
        return Found(None, (), f"{there} too few for {count} windows")
    return Found(StepSource("windows", "", 0.0), pieces)


def at_most(found: Found, most: int) -> Found:
    """The same steps, several taken together where there are more than `most`."""
    return found if found.source is None else _together(found.source, found.pieces, most)


def _named(every: Sequence[Span], name: str) -> list[Span]:
    """The annotations of this name, or with this before their #; of several optimizers those of
    one alone, as a step of each makes a step."""
    found = [span for span in every if name in (span.name, span.name.partition("#")[0])]
    if name == OPTIMIZER_STEP and found:
        most, _ = Counter(span.name for span in found).most_common(1)[0]
        found = [span for span in found if span.name == most]
    return found


def _pieces(
    replay: Replay, named: list[Span], name: str, *, lost: bool | None
) -> tuple[Piece, ...]:
    """From START to END; of optimizers from the END of one to the END of the next.

    `lost` says whether the recorder dropped the oldest events; None where that is not known.
    """
    base, last = replay.first_event, replay.start + replay.events
    pieces: list[Piece] = []
    before: Span | None = None
    for span in sorted(named, key=lambda one: (one.start_us, one.end_us or 0)):
        if span.end_us is None or span.end_event is None:
            continue
        # What lies outside of the range that was read, or on its edge, is not whole. Nor is one
        # that began before the first event, where others ended by then: their events are lost.
        if lost is None and span.end_event == replay.start:
            lost = True
        early = span.start_event == replay.start and (replay.first_event > 0 or lost)
        late = span.end_event == last and not replay.native.reaches_end
        if name == OPTIMIZER_STEP:
            if before is not None and before.end_event is not None and not late:
                edge = before.end_event == replay.start
                if not edge and before.end_event < span.end_event:
                    pieces.append(
                        Piece(
                            before.end_event + 1 - base,
                            span.end_event + 1 - base,
                            span.name,
                            before.end_us,
                            span.end_us,
                        )
                    )
            before = span
            continue
        first = span.start_event + 1 - base
        stop = span.end_event + 1 - base
        if pieces:
            # An event in the microsecond in which one ends and the next begins is the first one's.
            first = max(first, pieces[-1].stop)
        # Those without any event are mostly of a part of the program that was not recorded.
        if first < stop and not early and not late:
            pieces.append(Piece(first, stop, span.name, span.start_us, span.end_us))
    return tuple(pieces)


def _equal(events: int, period: int) -> Found:
    count = events // period
    if count < 2:
        return Found(None, (), f"{events} events are not two periods of {period}")
    together = -(-count // MOST_STEPS)
    size = period * together
    pieces = tuple(Piece(k * size, (k + 1) * size) for k in range(events // size))
    return Found(StepSource("given", "", 1.0, together), pieces)


def _repeated(usage: Usage, only: str) -> Found:
    """Steps from the stacks that come once in each, or, in a trace without stacks, from sizes or
    from the rise and fall of memory. `only` is an annotation that marks one step."""
    from memreplay import _growth

    replay = usage.replay
    whole = replay.measure()
    has_stacks = replay.native.tally()["with_stack"] > 0
    for kind in ("stacks",) if has_stacks else ("sizes", "usage"):
        cuts, score, _ = _growth.find_period(replay.native, whole.column, whole.start_bytes, kind)
        at = memoryview(cuts)
        if score >= LEAST_SCORE and len(at) > _growth.LEAST_ROUNDS:
            together = -(-(len(at) - 1) // MOST_STEPS)
            chosen = at[::together].tolist()
            # Where the last repetition ends is not known, so it is none.
            pieces = tuple(Piece(a, b) for a, b in pairwise(chosen))
            source = StepSource(kind, "", round(score, 3), together)  # type: ignore[arg-type]
            return Found(source, pieces)
    why = f"{only} marks a single step" if only else "no annotation marks steps"
    why += ", and the trace does not repeat itself"
    return Found(None, (), f"{why}; {_ADVICE}")


def _together(source: StepSource, pieces: tuple[Piece, ...], most: int) -> Found:
    count = -(-len(pieces) // most)
    if count <= 1:
        return Found(source, pieces)
    merged = tuple(
        Piece(group[0].first, group[-1].stop, group[0].name, group[0].start_us, group[-1].end_us)
        for group in (pieces[k : k + count] for k in range(0, len(pieces) - count + 1, count))
    )
    count *= source.taken_together
    return Found(StepSource(source.kind, source.name, source.score, count), merged)


def _no_such(snap: Snapshot, replay: Replay, every: Sequence[Span], name: str) -> str:
    if not snap.native.n_annotations:
        return (
            "this snapshot has no annotations; record them with torch.profiler.record_function(),"
            " or give --period"
        )
    if not replay.has_times:
        return "the events have no times, so that annotations stand nowhere; give --period"
    if not every:
        return f"device {replay.device} has no annotations at its events; give --period"
    names = list(dict.fromkeys(span.name.partition("#")[0] for span in every))
    there = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"device {replay.device} has no annotation {name!r}; there are: {there}"
