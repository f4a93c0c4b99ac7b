"""Finds steps that nothing marks: by the optimizer's stacks, or by what repeats in the trace."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from memreplay import _core
from memreplay.analysis.code.plumbing import USER, file_rank
from memreplay.analysis.steps.boundaries import turns
from memreplay.analysis.steps.records import (
    Found,
    Piece,
    Source,
    StepSource,
    taken_together,
)

if TYPE_CHECKING:
    from memreplay.engine.read.column import Column
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

# What repeats in the trace with a lower score is no step: by runs of allocations that come back, by
# single stacks that come once in each, by the rise and fall of memory.
LEAST_RECURRENCE, LEAST_REPEATED, LEAST_WAVES = 0.6, 0.35, 0.46
# If it doesn't count how memory rises and falls in rounds, they have to be more alike.
LEAST_EVEN = 0.75
# A trace that allocates more than so many times its rise and fall is no single step.
MOST_CHURN = 20
_ADVICE = (
    "annotate steps with torch.profiler.record_function() and name them with --step-annotation,"
    " record more of them, or give --period"
)


def guessed(snap: Snapshot, usage: Usage, *, by_turns: bool) -> Found:
    """Steps from what repeats; where nothing does, one step that ends with the optimizer's only
    turn, else all that was read. `by_turns`: whether the optimizer's are clear."""
    repeated = _repeated(usage)
    if repeated.source is not None:
        return repeated
    of_optimizer = turns(usage.replay, zeroed=False) if by_turns else Found(None, ())
    if of_optimizer.source is not None:
        return of_optimizer
    rounds = _rounds(snap, usage)
    return rounds if rounds.source is not None else _whole(usage)


def _rounds(snap: Snapshot, usage: Usage) -> Found:
    """Rounds of a loop that fills the recording, such as the requests of a server. Memory may vary
    by far more than one of them needs. A loop inside a module's forward() or inside a library, such
    as that over the tokens of a text, has no steps."""
    from memreplay.engine.query import _growth

    replay = usage.replay
    if not replay.tally.with_stack:
        return Found(None, ())
    whole = replay.measure()
    found = _growth.find_recurrence(replay.native, whole.column, whole.start_bytes, False, True)
    rounds = _cut("stacks", *found, LEAST_EVEN)
    if rounds.pieces and _in_the_program(snap, replay, rounds.pieces[len(rounds.pieces) // 2]):
        return rounds
    return Found(None, ())


def _in_the_program(snap: Snapshot, replay: Replay, piece: Piece) -> bool:
    """Whether more than one line of the program's own code allocates in this round."""
    import numpy as np

    rows = slice(piece.first, piece.stop)
    is_alloc = np.asarray(replay.column("action"))[rows] == _core.ACTIONS.index("alloc")
    stacks = np.unique(np.asarray(replay.column("stack"))[rows][is_alloc])
    lines = set()
    for stack in stacks[stacks != _core.ABSENT_ID].tolist():
        frames = snap.stack(stack)
        user = [frame for frame in frames if file_rank(frame.file) == USER]
        lines.add(tuple((frame.file, frame.line) for frame in user))
    return len(lines) > 1


def _repeated(usage: Usage) -> Found:
    """Steps from runs of allocations that come back, by their stacks or in a trace without stacks
    by their sizes; else from what comes once in each, or from the rise and fall of memory."""
    from memreplay.engine.query import _growth

    replay = usage.replay
    whole = replay.measure()
    series = replay.native, whole.column, whole.start_bytes
    kind: Source = "stacks" if replay.tally.with_stack else "sizes"
    cuts, score = _growth.find_recurrence(*series, kind == "sizes")
    least = LEAST_RECURRENCE
    if score < LEAST_RECURRENCE:
        cuts, score, _ = _growth.find_period(*series, kind)
        if score < LEAST_REPEATED and kind == "sizes":
            kind = "usage"
            cuts, score, _ = _growth.find_period(*series, kind)
        least = LEAST_WAVES if kind == "usage" else LEAST_REPEATED
    return _cut(kind, cuts, score, least)


def _cut(kind: Source, cuts: Column, score: float, least: float) -> Found:
    """Steps from the events that they begin with; none if the score is below `least`."""
    from memreplay.engine.query import _growth

    at = memoryview(cuts)
    if score < least or len(at) <= _growth.LEAST_ROUNDS:
        return Found(None, ())
    merged = taken_together(len(at) - 1)
    # Where the last repetition ends is not known, so it is none.
    pieces = tuple(Piece(a, b) for a, b in pairwise(at[::merged].tolist()))
    return Found(StepSource(kind, "", round(score, 3), merged), pieces)


def _whole(usage: Usage) -> Found:
    """All that was read as one step, where it may be one: it is short, or it goes once through the
    layers of a module."""
    replay = usage.replay
    allocated = churn(usage)
    if allocated <= 0 or (allocated > MOST_CHURN and not _one_pass(replay)):
        why = f"no annotation marks steps, and nothing in the trace repeats like steps; {_ADVICE}"
        return Found(None, (), why)
    return Found(StepSource("whole", "", 0.0), (Piece(0, replay.events),))


def _one_pass(replay: Replay) -> bool:
    """Whether what comes back, by its sizes, does so in a module's forward() alone: by its stacks
    nothing did."""
    from memreplay.engine.query import _growth

    if not replay.tally.with_stack:
        return False
    whole = replay.measure()
    _, score = _growth.find_recurrence(replay.native, whole.column, whole.start_bytes, True)
    return score >= LEAST_RECURRENCE


def churn(usage: Usage) -> float:
    """How many times what memory rises and falls by is allocated."""
    from memreplay.engine.query import _growth

    replay = usage.replay
    native = None if usage.measure == "reserved" else usage.native
    ((_, _, _, _, allocated),) = _growth.step_sums(
        replay.native, native, usage.column, usage.start_bytes, [(0, replay.events)]
    )
    return allocated / max(1, usage.peak.bytes - usage.minimum.bytes)
