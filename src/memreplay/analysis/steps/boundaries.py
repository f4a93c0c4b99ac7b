"""Finds the steps of a training or inference loop: noted, from annotations, or from the trace."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from memreplay import _core
from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.steps.records import (
    Found,
    Piece,
    StepAt,
    StepSource,
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
# Marks of the optimizer that are so many times its turns are those of several optimizers; fewer are
# if more than one place in the code calls an optimizer.
SEVERAL, OF_SEVERAL_PLACES = 1.5, 1.05
LEAST_TURNS = 3
# Optimizers step together if no more is allocated between them than what a backward pass needs
# between two parameters.
TOGETHER = 3
# What this share of the steps allocates is what a step of one optimizer does.
REGULAR = 0.75
# If it is less than this, it may be a part of a backward pass.
LEAST_WORK = 8
# Of several optimizers in turns, what is allocated comes back after so many steps at most.
MOST_IN_TURN = 64
ALIKE = 0.9
WINDOWS = 20

UNCLEAR = "several optimizers share the name of their annotation"


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
    if annotation is not None:
        every = spans(snap, replay)
        named = _named(every, annotation)
        if not named:
            return Found(None, (), _no_such(snap, replay, every, annotation))
        pieces = _pieces(replay, named, annotation, lost=_lost(snap, replay))
        if not pieces:
            words = f"no {annotation!r} annotation is complete in this recording"
            return Found(
                None, (), f"{words}; start recording before a step begins, and dump after it ends"
            )
        return together(StepSource("annotation", annotation, 1.0), pieces)
    known = known_steps(snap, replay)
    if known.source is not None:
        return known
    from memreplay.analysis.steps.guessing import guessed  # late: few files need a guess

    return guessed(snap, usage, by_turns=known.missing != UNCLEAR)


def known_steps(snap: Snapshot, replay: Replay) -> Found:
    """The steps that were noted, that annotations mark, or the optimizer's turns: without any
    guess, and in little time. Where `find_steps` is asked for none, and there are these, they are
    what it finds."""
    if replay.events == 0:
        return Found(None, ())
    noted = _noted(snap, replay)
    if noted.source is not None and snap.recorder.get("steps_told") is True:
        return noted  # the program's own word
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
        if len(pieces) > 1:
            return together(StepSource("annotation", name, 1.0), pieces)
        if pieces and marked.source is None:
            marked = Found(StepSource("annotation", name, 1.0), pieces)
    by_turns = turns(replay, zeroed=False)
    if len(by_turns.pieces) < 2:
        zeroed = turns(replay, zeroed=True)
        by_turns = zeroed if len(zeroed.pieces) > 1 else by_turns
    # Of two turns the first step begins with the trace: one that is marked says more.
    return by_turns if len(by_turns.pieces) > (1 if marked.source is None else 2) else marked


def _of_several_optimizers(
    replay: Replay, named: Sequence[Span], *, lost: bool | None
) -> Found | None:
    """The steps of a program whose optimizers share the name of their annotation, if they can be
    told apart; without a source if they can't. None if it is one optimizer."""
    ended = [one for one in named if one.end_event is not None]
    ended.sort(key=lambda one: one.start_us)
    edges = [edge for one in ended for edge in (one.start_event, one.end_event or 0)]
    # Of each span what was allocated between the one before and it.
    between = _allocations(replay, [edge + 1 - replay.first_event for edge in edges])[1::2]
    groups = [ended[:1]]
    gaps: list[int] = []
    for span, gap in zip(ended[1:], between, strict=True):
        # What lies before the first event, or after the last, has no place of its own.
        before, last = groups[-1][-1].end_event or 0, replay.start + replay.events
        if gap <= TOGETHER and replay.start < before <= span.start_event < last:
            groups[-1].append(span)
        else:
            gaps.append(gap)
            groups.append([span])
    by_turns = turns(replay, zeroed=False)
    at_work = len(by_turns.pieces) + 1
    if len(groups) < LEAST_TURNS:  # the work is inside of the step, as a closure's
        groups, gaps = [[one] for one in ended], []
    if at_work >= LEAST_TURNS:
        merged = len(groups) < len(ended) and at_work <= len(groups) + 1
        if merged or len(groups) >= SEVERAL * at_work:
            return (
                Found(None, (), UNCLEAR) if _in_turn(_work(replay, by_turns.pieces)) else by_turns
            )
        if len(groups) >= OF_SEVERAL_PLACES * at_work and _places(replay) > 1:
            # Two optimizers, or one that is called in two places.
            return Found(None, (), UNCLEAR)
    if _in_turn(gaps):
        return Found(None, (), UNCLEAR)
    if len(groups) == len(ended):
        return None
    pieces = _pieces(replay, [group[-1] for group in groups], OPTIMIZER_STEP, lost=lost)
    return together(StepSource("annotation", OPTIMIZER_STEP, 1.0), pieces)


def _places(replay: Replay) -> int:
    from memreplay.engine.query import _growth

    return _growth.count_optimizers(replay.native)


def _work(replay: Replay, pieces: Sequence[Piece]) -> list[int]:
    """How many allocations each has."""
    edges = [edge for piece in pieces for edge in (piece.first, piece.stop)]
    return _allocations(replay, edges)[::2]


def _allocations(replay: Replay, rows: Sequence[int]) -> list[int]:
    """How many allocations there are from each row of the trace to the next of these."""
    import numpy as np

    actions = np.frombuffer(memoryview(replay.column("action")), "u1")  # type: ignore[arg-type]
    made = np.flatnonzero(actions == _core.ACTIONS.index("alloc"))
    found: list[int] = np.diff(np.searchsorted(made, rows)).tolist()
    return found


def _in_turn(works: Sequence[int]) -> bool:
    """Whether what is allocated for each step differs as it does with several optimizers that step
    in turn. The first quarter doesn't count: it may be of a start."""
    works = works[len(works) // 4 :]
    if len(works) < 2 * LEAST_TURNS:
        return False
    ((usual, count),) = Counter(works).most_common(1)
    if count >= REGULAR * len(works):
        return usual < LEAST_WORK and count < ALIKE * len(works)
    for k in range(2, min(MOST_IN_TURN, len(works) // 3) + 1):
        alike = sum(a == b for a, b in zip(works, works[k:], strict=False))
        if alike >= ALIKE * (len(works) - k):
            return True
    return False


def _noted(snap: Snapshot, replay: Replay) -> Found:
    """The steps that memreplay's recorder noted the ends of."""
    base, last = replay.first_event, replay.first_event + replay.events
    cuts = [one for one in snap.recorded_steps(replay.device) if base <= one <= last]
    pieces = tuple(Piece(a - base, b - base) for a, b in pairwise(cuts) if b > a)
    if not pieces:
        return Found(None, ())
    return together(StepSource("recorder", "", 1.0), pieces)


def _lost(snap: Snapshot, replay: Replay) -> bool | None:
    """Whether the recorder dropped the oldest events; None where that is not known."""
    lost = overflowed(snap, replay.device)
    return False if lost is None and replay.measure().start_bytes == 0 else lost


def turns(replay: Replay, *, zeroed: bool) -> Found:
    """Steps that end where a turn of the optimizer does; where these are one or two, the first
    begins with the trace."""
    if not replay.tally.with_stack:
        return Found(None, ())
    from memreplay.engine.query import _growth

    ends = memoryview(_growth.find_turns(replay.native, zeroed)).tolist()
    cuts = [0, *ends] if 0 < len(ends) < 3 else ends
    pieces = tuple(Piece(a, b) for a, b in pairwise(cuts) if b > a)
    if not pieces:
        return Found(None, ())
    source = StepSource("optimizer", "zero_grad" if zeroed else "step", 1.0)
    return together(source, pieces)


def step_at(found: Found, replay: Replay, event: int) -> StepAt | None:
    """The step that an event is in, else the one that it is before; None where there are none."""
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
        annotation=source.name if source.kind == "annotation" else None,
        found=source.kind,
        number=number,
        of=len(found.pieces),
        inside=inside,
        by=source.name,
        name=name,
    )


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
    return found if found.source is None else together(found.source, found.pieces, most)


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
            # An event in the microsecond in which one ends and the next begins is the first one's.
            first = max(first, pieces[-1].stop)
        # Those without any event are mostly of a part of the program that was not recorded.
        if first < stop and not early and not late:
            pieces.append(Piece(first, stop, span.name, span.start_us, span.end_us))
    if name == OPTIMIZER_STEP and len(pieces) < 2:
        return _from_the_start(pieces, [one for one in named if one.end_event is not None], replay)
    return tuple(pieces)


def _from_the_start(
    pieces: Sequence[Piece], named: Sequence[Span], replay: Replay
) -> tuple[Piece, ...]:
    """The same, where the optimizer stepped once or twice: what comes before its first END is a
    step as well, or all that was recorded of one."""
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
        return Found(None, (), f"{events} events are not two periods of {period}")
    merged = taken_together(count)
    size = period * merged
    pieces = tuple(Piece(k * size, (k + 1) * size) for k in range(events // size))
    return Found(StepSource("given", "", 1.0, merged), pieces)


def _no_such(snap: Snapshot, replay: Replay, every: Sequence[Span], name: str) -> str:
    if not snap.annotation_count:
        return (
            "this snapshot has no annotations; record them with torch.profiler.record_function(),"
            " or give --period"
        )
    if not replay.has_times:
        return "the events have no times, so annotations cannot be placed; give --period"
    if not every:
        return f"device {replay.device} has no annotations during its events; give --period"
    names = list(dict.fromkeys(span.name.partition("#")[0] for span in every))
    there = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"device {replay.device} has no annotation {name!r}; there are: {there}"
