"""Find code that has a cheaper alternative, and compute how far the alternative lowers the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from memreplay.analysis.advising.lives import (
    ATTENTION,
    FOREACH,
    KEPT,
    LINEAR,
    LOSS,
    SOFTMAX,
    WORKSPACE,
)
from memreplay.engine.query._vectors import constant, counting, joined, zeros

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memreplay.analysis.advising.lives import Lives, Place
    from memreplay.engine.query._vectors import Vector

    Chosen = Vector

LEAST = 1 << 20  # bytes; smaller results aren't worth advice about a cheaper form
CHUNKS = 8  # number of chunks to compute a loss in
SIZES = 16  # how many of the largest result sizes to consider per form
NEAR = 6  # maximum distance of a loss from its logits and their gradients, in allocations
NEXT = 2  # a temporary outlives at most this many allocations
MOST = 10_000_000  # maximum number of gradients times number of steps
_ATTENTION = r"(?i)(?:^|\.)\w*att(?:n|ention)\w*(?:\.|$)"
BACKWARD = ("backward", "autograd detail", "gradients")
GRADIENTS = ("backward", "gradients")


class Form(Struct, frozen=True):
    """Bytes that code holds at the peak, and how far the peak falls with the cheaper form."""

    held_bytes: int
    saved_bytes: int
    place: Place | None
    """The line that holds most of these bytes."""


NOTHING = Form(0, 0, None)


class Held(Struct, frozen=True):
    """Rows that a cheaper form of the code doesn't need, or needs only in part."""

    chosen: Chosen
    place: Chosen
    """Rows whose lines are preferred when naming the code."""


def attention_scores(lives: Lives) -> Form:
    """Find what `scores` hold."""
    found = scores(lives)
    return NOTHING if found is None else _form(lives, found.chosen, found.place)


def scores(lives: Lives) -> Held | None:
    """Find softmax results and other results of the same sizes.

    These are the scores, the masked scores, dropout, and their gradients. A fused kernel stores
    none of them.
    """
    code = lives.code()
    softmax = (code & SOFTMAX) > 0
    near = lives.of_same("file", softmax)
    sizes = _sizes(lives, softmax, (1, 2, 4))
    if not len(sizes):
        # `scores.softmax(-1)` has no Python frame, so attention results larger than their inputs
        # count as scores.
        near = ((code & ATTENTION) > 0) | lives.of_modules(_ATTENTION)
        linear = near & ((code & LINEAR) > 0)
        largest = lives.bytes[linear].max(initial=0)
        if not largest:
            return None
        softmax = near & (lives.bytes > largest) & ~_kept(lives)
        sizes = _sizes(lives, softmax, (1,))
    if not len(sizes):
        return None
    alike = lives.bytes.is_in(sizes) & ~_kept(lives)
    near &= (code & LINEAR) == 0
    chosen = alike & (softmax | near | lives.of("category", *BACKWARD))
    return Held(chosen, softmax)


def loss(lives: Lives) -> Form:
    """Find what `logits` hold, beyond one chunk of CHUNKS."""
    found = logits(lives)
    return NOTHING if found is None else _form(lives, found.chosen, found.place, 1 - 1 / CHUNKS)


def logits(lives: Lives) -> Held | None:
    """Find the logits, their log-softmax, and the gradients of both, which have the same size.

    If the loss is computed in CHUNKS chunks of tokens, only one chunk's share exists at a time.
    """
    code = lives.code()
    computed = (code & LOSS) > 0
    sizes = _sizes(lives, computed, (1, 2))
    if not len(sizes):
        return None
    alike = lives.bytes.is_in(sizes) & ~_kept(lives)
    rows = (computed & alike).rows()
    if _in_chunks(rows):
        return None
    near = zeros(len(lives) + 2 * NEAR + 1)
    near.add_at(rows, 1)
    near.add_at(rows + 2 * NEAR + 1, -1)
    chosen = alike & (near.sums()[NEAR : NEAR + len(lives)] > 0)
    return Held(chosen, computed)


def _in_chunks(rows: Vector) -> bool:
    """Return whether a loss's rows come in runs, which shows that the code already computes the
    loss in chunks.
    """
    apart = (rows[1:] - rows[:-1] > 2 * NEAR).rows()
    ends = joined([[-1], apart, [len(rows) - 1]])
    return (ends[1:] - ends[:-1]).max() >= CHUNKS


def foreach(lives: Lives) -> Form:
    """Find temporaries that an optimizer computes for all parameters at once and frees in the same
    step.
    """
    return _form(lives, temporaries(lives), (lives.code() & FOREACH) > 0)


def temporaries(lives: Lives) -> Chosen:
    """Return the chosen rows that are freed before their step ends."""
    made = (lives.code() & FOREACH) > 0
    if not made.any():
        return made
    passing = lives.of("category", "optimizer temporaries", "temporary")
    return made & passing & lives.of("phase", "optimizer")


def stale_gradients(lives: Lives, steps: Sequence[int]) -> Form:
    """Find gradients of an earlier step that are live in the next forward pass.

    `steps`: the events at which steps begin, possibly guessed.
    """
    change = zeros(lives.events + 1)
    at_peak = zeros(len(lives), "?")
    for one in stale(lives, steps):
        change[one.begin] = change[one.begin] + lives.bytes[one.rows].sum()
        change.add_at(one.until, -lives.bytes[one.rows])
        if one.begin <= lives.peak < one.end:
            at_peak[one.rows] = True
    return Form(lives.held(at_peak), lives.lowered(change), lives.largest_place(at_peak))


class Stale(Struct, frozen=True):
    """Gradients that one step doesn't need before its backward pass replaces them."""

    rows: Vector
    begin: int
    """The event from which they aren't needed."""
    until: Vector
    """The events at which they're replaced."""
    end: int
    """The event at which the step ends."""


def stale(lives: Lives, steps: Sequence[int]) -> Iterator[Stale]:
    """Yield each step's gradients of an earlier step."""
    gradients = _gradients(lives).rows()
    first, last = lives.start[gradients], lives.end[gradients]
    forward = joined([lives.start[lives.forward()], [lives.events]])
    backward = (lives.of("category", *BACKWARD) | lives.of("phase", "backward")).rows()
    began = lives.start[backward]
    if not 0 < len(gradients) * len(steps) <= MOST:
        return
    parameters = None if lives.recorded else _parameters(lives)
    for step, end in zip(steps, [*steps[1:], lives.events], strict=True):
        # Until the forward pass begins, an optimizer may still need the gradients.
        begin = forward[forward.places([step])[0]] if len(forward) > 1 else step
        old = gradients[(first < begin) & (last > begin)]
        made = backward[began.places([begin], right=True)[0] : began.places([end])[0]]
        if not len(old) or not len(made):
            continue
        if parameters is not None:
            then = lives.start[made[-1]]
            after = _fitting(lives, gradients[(first <= then) & (last > then)], parameters)
            old = _fitting(lives, old, parameters)
            old = old[(lives.end[old] <= then) | old.is_in(after)]
        yield Stale(old, begin, lives.end[old].lower(_replaced_at(lives, old, made)), end)


def _gradients(lives: Lives) -> Chosen:
    """Return possible gradients, leaving out workspaces and a backward pass's temporaries."""
    if lives.recorded:
        return lives.of("category", "gradients")
    chosen = lives.of("category", *GRADIENTS)
    chosen &= (lives.code() & WORKSPACE) == 0
    chosen &= lives.age() > NEXT
    return chosen


def _parameters(lives: Lives) -> tuple[Vector, Vector]:
    """Return the possible parameter sizes, and the number of parameters of each size.

    Parameters are live before the first gradient and not allocated by a forward pass.
    """
    backward = lives.of("category", *BACKWARD)
    others = ~backward & ~lives.forward()
    first = lives.start[backward].min(initial=lives.events)
    there = others & (lives.start < first) & (lives.end > first)
    sizes, places = joined([lives.bytes[there], lives.carried]).numbered()
    return sizes, places.counts()


def _fitting(lives: Lives, rows: Vector, parameters: tuple[Vector, Vector]) -> Vector:
    """Return those of the rows (ascending numbers) that can be gradients: for each parameter size,
    at most one per parameter.

    If more rows have that size, the oldest ones are assumed to be workspaces.
    """
    sizes, counts = parameters
    if not len(sizes):
        return rows[:0]
    rows = rows[::-1]
    rows = rows[lives.bytes[rows].order()]
    size = lives.bytes[rows]
    rank = counting(len(rows)) - size.places(size)
    at = sizes.places(size).lower(len(sizes) - 1)
    return rows[(sizes[at] == size) & (rank < counts[at])].sorted()


def _replaced_at(lives: Lives, old: Vector, made: Vector) -> Vector:
    """Return for each old gradient when a backward pass replaced it and so no longer needs it.

    `made` are the rows that the pass allocated. Old and new gradients of the same size are paired
    in order. Old gradients without a pair are needed until the pass ends.
    """
    until = constant(lives.start[made[-1]], len(old)).copy()
    for size in lives.bytes[old].distinct():
        which = (lives.bytes[old] == size).rows()
        # A new gradient that is added to the old one is freed after the addition, which counts as
        # the replacement.
        again = lives.end[made[lives.bytes[made] == size]][: len(which)]
        until[which[: len(again)]] = again.lower(until[which[: len(again)]])
    return until


def _form(lives: Lives, chosen: Chosen, place: Chosen, part: float = 1.0) -> Form:
    return Form(
        lives.held(chosen),
        lives.saved(chosen, part=part),
        lives.largest_place(chosen, place),
    )


def _kept(lives: Lives) -> Chosen:
    return lives.of("category", *KEPT)


def _sizes(lives: Lives, chosen: Chosen, times: tuple[int, ...]) -> Vector:
    """Return the sizes with the most bytes in total, and the sizes of the same tensors in other
    dtypes.
    """
    sizes = lives.bytes[chosen & (lives.bytes >= LEAST)]
    values, places = sizes.numbered()
    most = values[(-values * places.counts()).order()[:SIZES]]
    found = [most * n for n in times] + [most // n for n in times[1:]]
    return joined(found).distinct()
