"""Find the steps of a training or inference loop: recorded, annotated, or inferred from a trace."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from memreplay import _core
from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.steps.records import (
    Found,
    Piece,
    StepAt,
    StepSource,
    none_found,
    taken_together,
    together,
)
from memreplay.analysis.trust.ring import overflowed
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.snapshot.model import Span
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

PROFILER_STEP = "ProfilerStep"
OPTIMIZER_STEP = "Optimizer.step"
# Assume several optimizers if the number of optimizer marks is at least this multiple of the number
# of rounds. The lower ratio applies if the code calls optimizers in several places.
SEVERAL, OF_SEVERAL_PLACES = 1.5, 1.05
LEAST_TURNS = 3
# Optimizers belong to the same step if at most this many allocations happen between them. A
# backward pass makes that many allocations between two parameters.
TOGETHER = 3
# With a single optimizer, at least this share of the steps must make the same number of
# allocations.
REGULAR = 0.75
# If there are fewer allocations than this between two marks, these may be part of a backward pass.
LEAST_WORK = 8
# Alternating optimizers repeat their pattern of allocations within this many steps.
MOST_IN_TURN = 64
ALIKE = 0.9
WINDOWS = 20
# Score of steps whose marks may not be the program's steps.
SHARED = 0.5

UNCLEAR = "several optimizers share one annotation name"


def find_steps(
    snap: Snapshot, usage: Usage, *, annotation: str | None = None, period: int | None = None
) -> Found:
    """Return a device's steps: given by an option, or else recorded or annotated, or else inferred
    from repetition. Raises UsageError for an invalid period.
    """
    replay = usage.replay
    if annotation is not None and period is not None:
        raise UsageError("give steps by an annotation or a period, not both")
    if period is not None:
        if period < 1:
            raise UsageError("a period must be at least 1 event")
        return _equal(replay.events, period)
    if replay.events == 0:
        return none_found("no events were recorded")
    if annotation is not None:
        every = spans(snap, replay)
        named = _named(every, annotation)
        if not named:
            return none_found(_no_such(snap, replay, every, annotation))
        pieces = _pieces(replay, named, annotation, lost=_lost(snap, replay))
        if not pieces:
            return none_found(
                f"no {annotation!r} annotation is complete in this recording",
                "; start recording before a step begins, and dump after it ends",
            )
        return together(StepSource("annotation", annotation, 1.0), pieces)
    known = known_steps(snap, replay)
    if known.source is not None:
        return known
    from memreplay.analysis.steps.guessing import guessed  # imported late: few files need a guess

    return guessed(snap, usage, by_turns=known.missing != UNCLEAR)


def known_steps(snap: Snapshot, replay: Replay) -> Found:
    """Return the steps that were recorded or annotated, or the optimizer's rounds. This is fast and
    doesn't guess.

    If there are any, `find_steps` without options returns the same steps.
    """
    if replay.known_steps is None:
        replay.known_steps = _known_steps(snap, replay)
    found: Found = replay.known_steps
    return found


def _known_steps(snap: Snapshot, replay: Replay) -> Found:
    if replay.events == 0:
        return Found(None, ())
    noted = _noted(snap, replay)
    if noted.source is not None and snap.recorder.get("steps_told") is True:
        return noted  # the program marked its own steps
    every = spans(snap, replay)
    lost = _lost(snap, replay) if every else None
    marked = Found(None, ())
    for name in (PROFILER_STEP, OPTIMIZER_STEP):
        if name == OPTIMIZER_STEP and noted.source is not None:
            return noted
        named = _named(every, name)
        pieces = _pieces(replay, named, name, lost=lost)
        if len(pieces) > 1 and name == OPTIMIZER_STEP:
            several = _of_several_optimizers(replay, named, lost=lost)
            if several is not None:
                return several
            from memreplay.analysis.steps.doubting import doubt  # imported late: rarely needed

            why = doubt(replay, named)
            return together(
                StepSource("annotation", name, SHARED if why else 1.0, doubt=why), pieces
            )
        if len(pieces) > 1:
            return together(StepSource("annotation", name, 1.0), pieces)
        if pieces and marked.source is None:
            marked = Found(StepSource("annotation", name, 1.0), pieces)
    by_turns = turns(replay, zeroed=False)
    if len(by_turns.pieces) < 2:
        zeroed = turns(replay, zeroed=True)
        by_turns = zeroed if len(zeroed.pieces) > 1 else by_turns
    # If there are only two rounds, the first step begins with the trace, so annotated steps are
    # more reliable.
    return by_turns if len(by_turns.pieces) > (1 if marked.source is None else 2) else marked


def _of_several_optimizers(
    replay: Replay, named: Sequence[Span], *, lost: bool | None
) -> Found | None:
    """Return the steps of several optimizers that share an annotation name, or None if there's only
    one optimizer.

    The result has no source if the optimizers can't be told apart.
    """
    # Leave out optimizer steps before the first event, because no allocations show which optimizer
    # ran.
    ended = [one for one in named if (one.end_event or 0) > replay.start]
    ended.sort(key=lambda one: one.start_us)
    edges = [edge for one in ended for edge in (one.start_event, one.end_event or 0)]
    # Number of allocations between each span and the next one.
    between = _allocations(replay, [edge + 1 - replay.first_event for edge in edges])[1::2]
    groups = [ended[:1]]
    gaps: list[int] = []
    for span, gap in zip(ended[1:], between, strict=True):
        # Outside the selected events, positions are unknown.
        before, last = groups[-1][-1].end_event or 0, replay.start + replay.events
        if gap <= TOGETHER and replay.start < before <= span.start_event < last:
            groups[-1].append(span)
        else:
            gaps.append(gap)
            groups.append([span])
    by_turns = turns(replay, zeroed=False)
    at_work = len(by_turns.pieces) + 1
    # Each step's work happens inside optimizer.step(), as with a closure.
    if len(groups) < LEAST_TURNS:
        groups, gaps = [[one] for one in ended], []
    if at_work >= LEAST_TURNS:
        merged = len(groups) < len(ended) and at_work <= len(groups) + 1
        if merged or len(groups) >= SEVERAL * at_work:
            return none_found(UNCLEAR) if _in_turn(_work(replay, by_turns.pieces)) else by_turns
        if len(groups) >= OF_SEVERAL_PLACES * at_work and _places(replay) > 1:
            # There can be two optimizers, or one that is called in two places.
            return none_found(UNCLEAR)
    if _in_turn(gaps):
        return none_found(UNCLEAR)
    if len(groups) == len(ended):
        return None
    pieces = _pieces(replay, [group[-1] for group in groups], OPTIMIZER_STEP, lost=lost)
    return together(StepSource("annotation", OPTIMIZER_STEP, 1.0), pieces)


def _places(replay: Replay) -> int:
    from memreplay.engine.query import _growth

    return _growth.count_optimizers(replay.native)


def _work(replay: Replay, pieces: Sequence[Piece]) -> list[int]:
    """Return the number of allocations in each step."""
    edges = [edge for piece in pieces for edge in (piece.first, piece.stop)]
    return _allocations(replay, edges)[::2]


def _allocations(replay: Replay, rows: Sequence[int]) -> list[int]:
    """Return the number of allocations between consecutive rows."""
    made = (replay.vector("action", "B") == _core.ACTIONS.index("alloc")).rows()
    at = made.places(rows)
    return (at[1:] - at[:-1]).tolist()


def _in_turn(works: Sequence[int]) -> bool:
    """Return whether the number of allocations per step varies as it does with alternating
    optimizers.

    Ignores the first quarter of the steps, which may be warm-up.
    """
    works = works[len(works) // 4 :]
    if len(works) < 2 * LEAST_TURNS:
        return False
    # `most_common` imports heapq, which takes longer.
    usual, count = max(Counter(works).items(), key=itemgetter(1))
    if count >= REGULAR * len(works):
        return usual < LEAST_WORK and count < ALIKE * len(works)
    for k in range(2, min(MOST_IN_TURN, len(works) // 3) + 1):
        alike = sum(a == b for a, b in zip(works, works[k:], strict=False))
        if alike >= ALIKE * (len(works) - k):
            return True
    return False


def _noted(snap: Snapshot, replay: Replay) -> Found:
    """Return the steps between the boundaries that the recorder noted."""
    base, last = replay.first_event, replay.first_event + replay.events
    cuts = [one for one in snap.recorded_steps(replay.device) if base <= one <= last]
    pieces = tuple(Piece(a - base, b - base) for a, b in pairwise(cuts) if b > a)
    if not pieces:
        return Found(None, ())
    return together(StepSource("recorder", "", 1.0), pieces)


def _lost(snap: Snapshot, replay: Replay) -> bool | None:
    """Return whether the recorder dropped the oldest events; None if unknown."""
    lost = overflowed(snap, replay.device)
    return False if lost is None and replay.measure().start_bytes == 0 else lost


def turns(replay: Replay, *, zeroed: bool) -> Found:
    """Return steps that each end with an optimizer round. If there are only one or two rounds, the
    first step begins with the trace.
    """
    if not replay.tally.with_stack:
        return Found(None, ())
    from memreplay.engine.query import _growth

    ends = memoryview(_growth.find_optimizer_steps(replay.native, zeroed)).tolist()
    cuts = [0, *ends] if 0 < len(ends) < 3 else ends
    pieces = tuple(Piece(a, b) for a, b in pairwise(cuts) if b > a)
    if not pieces:
        return Found(None, ())
    source = StepSource("optimizer", "zero_grad" if zeroed else "step", 1.0)
    return together(source, pieces)


def step_at(found: Found, replay: Replay, event: int) -> StepAt | None:
    """Return the step that contains an event, or else the next step; None if there are no steps."""
    if found.source is None:
        return None
    row = event - replay.first_event
    number = next(
        (number for number, piece in enumerate(found.pieces, 1) if row < piece.stop),
        len(found.pieces) + 1,
    )
    after = number > len(found.pieces)
    inside = not after and row >= found.pieces[number - 1].first
    name = found.pieces[number - 1].name if inside else ""
    source = found.source
    return StepAt(
        annotation=source.name if source.found_by == "annotation" else None,
        found_by=source.found_by,
        number=number,
        of=len(found.pieces),
        inside=inside,
        by=source.name,
        name=name,
    )


def windows(usage: Usage, count: int = WINDOWS) -> Found:
    """Divide the trace into equal parts, which take the place of steps."""
    events = usage.replay.events
    cuts = [events * k // count for k in range(count + 1)]
    pieces = tuple(Piece(a, b) for a, b in pairwise(cuts) if b > a)
    if len(pieces) < count:
        there = f"{events} events are" if events != 1 else "1 event is"
        return none_found(f"{there} too few to divide into {count} windows")
    return Found(StepSource("windows", "", 0.0), pieces)


def at_most(found: Found, most: int) -> Found:
    """Merge steps so that at most `most` remain."""
    return found if found.source is None else together(found.source, found.pieces, most)


def _named(every: Sequence[Span], name: str) -> list[Span]:
    """Return the annotations whose name is `name`, or is `name` up to a #.

    For optimizers, return only the annotations of the most frequent name, because each optimizer
    runs once per step.
    """
    found = [span for span in every if name in (span.name, span.name.partition("#")[0])]
    if name == OPTIMIZER_STEP and found:
        most, _ = max(Counter(span.name for span in found).items(), key=itemgetter(1))
        found = [span for span in found if span.name == most]
    return found


def _pieces(
    replay: Replay, named: list[Span], name: str, *, lost: bool | None
) -> tuple[Piece, ...]:
    """Return steps that reach from the START to the END of an annotation or, for optimizers, from
    one END to the next.

    `lost` is whether the recorder dropped the oldest events, or None if unknown.
    """
    base, last = replay.first_event, replay.start + replay.events
    pieces: list[Piece] = []
    before: Span | None = None
    for span in sorted(named, key=lambda one: (one.start_us, one.end_us or 0)):
        if span.end_us is None or span.end_event is None:
            continue
        # Steps outside the selected range or at its edge are incomplete. If some steps ended before
        # the first event, events are lost, so a step that began before that event is also
        # incomplete.
        if lost is None and span.end_event == replay.start:
            lost = True
        early = span.start_event == replay.start and (replay.first_event > 0 or lost)
        late = span.end_event == last and not replay.reaches_end
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
            # If one step ends and the next begins in the same microsecond, the events of that
            # microsecond belong to the earlier step.
            first = max(first, pieces[-1].stop)
        # Leave out steps without events. Most of them ran while nothing was recorded.
        if first < stop and not early and not late:
            pieces.append(Piece(first, stop, span.name, span.start_us, span.end_us))
    if name == OPTIMIZER_STEP and len(pieces) < 2:
        return _from_the_start(pieces, [one for one in named if one.end_event is not None], replay)
    return tuple(pieces)


def _from_the_start(
    pieces: Sequence[Piece], named: Sequence[Span], replay: Replay
) -> tuple[Piece, ...]:
    """If the optimizer ran only once or twice, add a step from the start of the trace to the first
    END.
    """
    base, last = replay.first_event, replay.start + replay.events
    ended = [one for one in named if replay.start < (one.end_event or 0)]
    if not ended or (ended[0].end_event == last and not replay.reaches_end):
        return tuple(pieces)
    first = min(ended, key=lambda one: one.end_event or 0)
    assert first.end_event is not None
    stop = first.end_event + 1 - base
    if pieces and pieces[0].first != stop:
        return tuple(pieces)
    return (Piece(0, stop, first.name, None, None), *pieces)


def _equal(events: int, period: int) -> Found:
    count = events // period
    if count < 2:
        return none_found(f"{events} events are fewer than two periods of {period}")
    merged = taken_together(count)
    size = period * merged
    pieces = tuple(Piece(k * size, (k + 1) * size) for k in range(events // size))
    return Found(StepSource("given", "", 1.0, merged), pieces)


def _no_such(snap: Snapshot, replay: Replay, every: Sequence[Span], name: str) -> str:
    if not snap.annotation_count:
        return (
            "this snapshot has no annotations; record them with torch.profiler.record_function(),"
            " or give --step period=N"
        )
    if not replay.has_times:
        return "the events have no times, so annotations can't be placed;  give --step period=N"
    if not every:
        return f"device {replay.device} has no annotations during its events; give --step period=N"
    names = list(dict.fromkeys(span.name.partition("#")[0] for span in every))
    there = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"device {replay.device} has no annotation {name!r}; there are: {there}"
