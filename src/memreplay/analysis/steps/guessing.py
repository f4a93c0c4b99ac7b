"""Infer unmarked steps from the optimizer's stacks or from repetition in the trace."""

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

# Minimum scores for steps inferred from recurring runs of allocations, from stacks that occur once
# per step, and from the rise and fall of memory.
LEAST_RECURRENCE, LEAST_REPEATED, LEAST_WAVES = 0.6, 0.35, 0.46
# Minimum similarity of rounds if the rise and fall of memory isn't taken into account.
LEAST_EVEN = 0.75
# If a trace allocates more than this many times the range of its memory usage, it contains several
# steps.
MOST_CHURN = 20
_ADVICE = (
    "annotate steps with torch.profiler.record_function() and name them with"
    " --step annotation=NAME, record more of them, or give --step period=N"
)

_NO_ALLOCATION = (
    "no allocation was recorded; call _record_memory_history() before the steps begin, or check"
    " that the program allocates GPU memory while it records"
)


def guessed(snap: Snapshot, usage: Usage, *, by_turns: bool) -> Found:
    """Infer steps from repetition.

    If nothing repeats, return one step that ends with the optimizer's only round, or the whole
    trace as one step. `by_turns`: whether the optimizer's rounds are clear.
    """
    repeated, rounds = _repeated(usage)
    if repeated.source is not None:
        return repeated
    of_optimizer = turns(usage.replay, zeroed=False) if by_turns else Found(None, ())
    if of_optimizer.source is not None:
        return of_optimizer
    # These rounds can be those of a server, whose memory may vary far more between rounds than
    # within one round. Loops in a module's forward() or in a library, such as over the tokens of a
    # text, aren't steps.
    pieces = rounds.pieces
    if pieces and _in_the_program(snap, usage.replay, pieces[len(pieces) // 2]):
        return rounds
    return _whole(usage)


def _in_the_program(snap: Snapshot, replay: Replay, piece: Piece) -> bool:
    """Return whether allocations in this round come from several lines of user code."""
    rows = slice(piece.first, piece.stop)
    is_alloc = replay.vector("action", "B")[rows] == _core.ACTIONS.index("alloc")
    stacks = replay.vector("stack", "I")[rows][is_alloc].distinct()
    lines = set()
    for stack in stacks[stacks != _core.ABSENT_ID]:
        frames = snap.stack(stack)
        user = [frame for frame in frames if file_rank(frame.file) == USER]
        lines.add(tuple((frame.file, frame.line) for frame in user))
    return len(lines) > 1


def _repeated(usage: Usage) -> tuple[Found, Found]:
    """Return steps from recurring runs of allocations, by stack or, without stacks, by size.

    If there aren't any, use stacks that occur once per step, or the rise and fall of memory. The
    second result is the rounds found by stack without requiring that each round frees its memory.
    """
    from memreplay.engine.query import _growth

    replay = usage.replay
    whole = replay.measure()
    series = replay.native, whole.column, whole.start_bytes
    kind: Source = "stacks" if replay.tally.with_stack else "sizes"
    cuts, score, any_cuts, evenness = _growth.find_recurrence(*series, kind == "sizes")
    rounds = Found(None, ())
    if kind == "stacks":
        rounds = _cut("stacks", any_cuts, evenness, LEAST_EVEN)
    least = LEAST_RECURRENCE
    if score < LEAST_RECURRENCE:
        cuts, score, _ = _growth.find_period(*series, kind)
        if score < LEAST_REPEATED and kind == "sizes":
            kind = "usage"
            cuts, score, _ = _growth.find_period(*series, kind)
        least = LEAST_WAVES if kind == "usage" else LEAST_REPEATED
    return _cut(kind, cuts, score, least), rounds


def _cut(kind: Source, cuts: Column, score: float, least: float) -> Found:
    """Build steps from their first events. Return none if the score is below `least`."""
    from memreplay.engine.query import _growth

    at = memoryview(cuts)
    if score < least or len(at) <= _growth.LEAST_ROUNDS:
        return Found(None, ())
    merged = taken_together(len(at) - 1)
    # Leave out the last repetition, because its end is unknown.
    pieces = tuple(Piece(a, b) for a, b in pairwise(at[::merged].tolist()))
    return Found(StepSource(kind, "", round(score, 3), merged), pieces)


def _whole(usage: Usage) -> Found:
    """Return the whole trace as one step if that's plausible, because it's short or runs each of a
    module's layers only once.
    """
    replay = usage.replay
    if not replay.tally.actions.get(_core.ACTIONS.index("alloc")):
        return Found(None, (), _NO_ALLOCATION)
    allocated = churn(usage)
    if allocated <= 0 or (allocated > MOST_CHURN and not _one_pass(replay)):
        why = f"no annotation marks steps, and the trace doesn't repeat like steps; {_ADVICE}"
        return Found(None, (), why)
    return Found(StepSource("whole", "", 0.0), (Piece(0, replay.events),))


def _one_pass(replay: Replay) -> bool:
    """Return whether the only repetition is within a module's forward()."""
    from memreplay.engine.query import _growth

    if not replay.tally.with_stack:
        return False
    whole = replay.measure()
    _, score, *_ = _growth.find_recurrence(replay.native, whole.column, whole.start_bytes, True)
    return score >= LEAST_RECURRENCE


def churn(usage: Usage) -> float:
    """Return the allocated bytes divided by the range of memory usage."""
    from memreplay.engine.query import _growth

    replay = usage.replay
    native = None if usage.measure == "reserved" else usage.native
    ((_, _, _, _, allocated),) = _growth.step_sums(
        replay.native, native, usage.column, usage.start_bytes, [(0, replay.events)]
    )
    return allocated / max(1, usage.peak.bytes - usage.minimum.bytes)
