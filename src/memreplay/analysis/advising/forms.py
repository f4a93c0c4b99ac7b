"""Find code that has a cheaper alternative, and compute how far the alternative lowers the peak."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memreplay.analysis.advising.lives import (
    ATTENTION,
    FOREACH,
    KEPT,
    LINEAR,
    LOSS,
    SOFTMAX,
    WORKSPACE,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.analysis.advising.lives import Lives, Place

    Chosen = NDArray[np.bool_]

LEAST = 1 << 20  # bytes; smaller results aren't worth advice about a cheaper form
CHUNKS = 8  # number of chunks to compute a loss in
SIZES = 16  # how many of the largest result sizes to consider per form
NEAR = 6  # maximum distance of a loss from its logits and their gradients, in allocations
NEXT = 2  # a temporary outlives at most this many allocations
MOST = 10_000_000  # maximum number of gradients times number of steps
_ATTENTION = re.compile(r"(?i)(?:^|\.)\w*att(?:n|ention)\w*(?:\.|$)")
BACKWARD = ("backward", "autograd detail", "gradients")
GRADIENTS = ("backward", "gradients")


class Form(NamedTuple):
    """Bytes that code holds at the peak, and how far the peak falls with the cheaper form."""

    held_bytes: int
    saved_bytes: int
    place: Place | None
    """The line that holds most of these bytes."""


def attention_scores(lives: Lives) -> Form:
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
        largest = int(lives.bytes[linear].max(initial=0))
        softmax = near & (lives.bytes > largest) & (largest > 0) & ~_kept(lives)
        sizes = _sizes(lives, softmax, (1,))
    if not len(sizes):
        return Form(0, 0, None)
    alike = np.isin(lives.bytes, sizes) & ~_kept(lives)
    near &= (code & LINEAR) == 0
    chosen = alike & (softmax | near | lives.of("category", *BACKWARD))
    return _form(lives, chosen, softmax)


def loss(lives: Lives) -> Form:
    """Find the logits, their log-softmax, and the gradients of both, which have the same size.

    If the loss is computed in CHUNKS chunks of tokens, only one chunk's share exists at a time.
    """
    code = lives.code()
    computed = (code & LOSS) > 0
    sizes = _sizes(lives, computed, (1, 2))
    if not len(sizes):
        return Form(0, 0, None)
    alike = np.isin(lives.bytes, sizes) & ~_kept(lives)
    rows = np.flatnonzero(computed & alike)
    if _in_chunks(rows):
        return Form(0, 0, None)
    near = np.zeros(len(lives) + 2 * NEAR + 1, np.int64)
    np.add.at(near, rows, 1)
    np.add.at(near, rows + 2 * NEAR + 1, -1)
    chosen = alike & (np.cumsum(near)[NEAR : NEAR + len(lives)] > 0)
    return _form(lives, chosen, computed, 1 - 1 / CHUNKS)


def _in_chunks(rows: NDArray[np.int64]) -> bool:
    """Return whether a loss's rows come in runs, which shows that the code already computes the
    loss in chunks.
    """
    apart = np.flatnonzero(np.diff(rows) > 2 * NEAR)
    runs = np.diff(np.concatenate(([-1], apart, [len(rows) - 1])))
    return bool(runs.max(initial=0) >= CHUNKS)


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


def stale_gradients(lives: Lives, steps: NDArray[np.int64]) -> Form:
    """Find gradients of an earlier step that are live in the next forward pass.

    `steps`: the events at which steps begin, possibly guessed.
    """
    gradients = np.flatnonzero(_gradients(lives))
    first, last = lives.start[gradients], lives.end[gradients]
    forward = np.append(lives.start[lives.forward()], lives.events)
    backward = np.flatnonzero(lives.of("category", *BACKWARD) | lives.of("phase", "backward"))
    began = lives.start[backward]
    if not 0 < len(gradients) * len(steps) <= MOST:
        return Form(0, 0, None)
    change = np.zeros(lives.events + 1, np.int64)
    stale = np.zeros(len(lives), bool)
    parameters = None if lives.recorded else _parameters(lives)
    for step, end in zip(steps, np.append(steps[1:], lives.events), strict=True):
        # Until the forward pass begins, an optimizer may still need the gradients.
        begin = forward[np.searchsorted(forward, step)] if len(forward) > 1 else step
        old = gradients[(first < begin) & (last > begin)]
        made = backward[np.searchsorted(began, begin, "right") : np.searchsorted(began, end)]
        if not len(old) or not len(made):
            continue
        if parameters is not None:
            then = lives.start[made[-1]]
            after = _fitting(lives, gradients[(first <= then) & (last > then)], parameters)
            old = _fitting(lives, old, parameters)
            old = old[(lives.end[old] <= then) | np.isin(old, after)]
        until = np.minimum(lives.end[old], _replaced_at(lives, old, made))
        change[begin] += lives.bytes[old].sum()
        np.add.at(change, until, -lives.bytes[old])
        if begin <= lives.peak < end:
            stale[old] = True
    return Form(lives.held(stale), lives.lowered(change), lives.largest_place(stale))


def _gradients(lives: Lives) -> Chosen:
    """Return possible gradients, leaving out workspaces and a backward pass's temporaries."""
    if lives.recorded:
        return lives.of("category", "gradients")
    chosen = lives.of("category", *GRADIENTS)
    chosen &= (lives.code() & WORKSPACE) == 0
    chosen &= lives.age() > NEXT
    return chosen


def _parameters(lives: Lives) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the possible parameter sizes, and the number of parameters of each size.

    Parameters are live before the first gradient and not allocated by a forward pass.
    """
    backward = lives.of("category", *BACKWARD)
    others = ~backward & ~lives.forward()
    first = lives.start[backward].min(initial=lives.events)
    there = others & (lives.start < first) & (lives.end > first)
    return np.unique(np.concatenate([lives.bytes[there], lives.carried]), return_counts=True)


def _fitting(
    lives: Lives,
    rows: NDArray[np.int64],
    parameters: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return those of the rows (ascending numbers) that can be gradients: for each parameter size,
    at most one per parameter.

    If more rows have that size, the oldest ones are assumed to be workspaces.
    """
    sizes, counts = parameters
    if not len(sizes):
        return rows[:0]
    rows = rows[::-1]
    rows = rows[np.argsort(lives.bytes[rows], kind="stable")]
    size = lives.bytes[rows]
    rank = np.arange(len(rows)) - np.searchsorted(size, size)
    at = np.minimum(np.searchsorted(sizes, size), len(sizes) - 1)
    return np.sort(rows[(sizes[at] == size) & (rank < counts[at])])


def _replaced_at(
    lives: Lives, old: NDArray[np.int64], made: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each old gradient when a backward pass replaced it and so no longer needs it.

    `made` are the rows that the pass allocated. Old and new gradients of the same size are paired
    in order. Old gradients without a pair are needed until the pass ends.
    """
    until = np.full(len(old), lives.start[made[-1]])
    for size in np.unique(lives.bytes[old]):
        which = np.flatnonzero(lives.bytes[old] == size)
        # A new gradient that is added to the old one is freed after the addition, which counts as
        # the replacement.
        again = lives.end[made[lives.bytes[made] == size]][: len(which)]
        until[which[: len(again)]] = np.minimum(again, until[which[: len(again)]])
    return until


def _form(lives: Lives, chosen: Chosen, place: Chosen, part: float = 1.0) -> Form:
    return Form(
        lives.held(chosen),
        lives.saved(chosen, part=part),
        lives.largest_place(chosen, place),
    )


def _kept(lives: Lives) -> Chosen:
    return lives.of("category", *KEPT)


def _sizes(lives: Lives, chosen: Chosen, times: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the sizes with the most bytes in total, and the sizes of the same tensors in other
    dtypes.
    """
    sizes = lives.bytes[chosen & (lives.bytes >= LEAST)]
    values, counts = np.unique(sizes, return_counts=True)
    most = values[np.argsort(-values * counts)[:SIZES]]
    found = [most * n for n in times] + [most // n for n in times[1:]]
    return np.unique(np.concatenate(found))
