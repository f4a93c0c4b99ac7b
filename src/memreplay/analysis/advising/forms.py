"""Code that has a form which takes less memory: what it holds, and how far the peak falls."""

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

    from memreplay.analysis.advising.lives import Lives

    Chosen = NDArray[np.bool_]

LEAST = 1 << 20  # bytes of a result that a cheaper form is worth a thought for
CHUNKS = 8  # that a loss is computed over
SIZES = 16  # of the results of a form, those that take most
NEAR = 6  # allocations before and after a loss, of which some are the logits and their gradients
NEXT = 2  # allocations that a temporary outlives at most
MOST = 10_000_000  # gradients times steps that are looked at
_ATTENTION = re.compile(r"(?i)(?:^|\.)\w*att(?:n|ention)\w*(?:\.|$)")
BACKWARD = ("backward", "autograd detail", "gradients")
GRADIENTS = ("backward", "gradients")


class Form(NamedTuple):
    """What a form of code holds at the peak, and by how much that falls with the cheaper one."""

    held_bytes: int
    saved_bytes: int
    stack: int | None
    """The stack that holds most of it, by its number."""


def attention_scores(lives: Lives) -> Form:
    """Softmax results, and what else is of their sizes beside them: the scores and the masked ones
    before them, dropout after them, their gradients.

    A fused kernel stores none of these.
    """
    code = lives.code()
    softmax = (code & SOFTMAX) > 0
    near = lives.of_same("file", softmax)
    sizes = _sizes(lives, softmax, (1, 2, 4))
    if not len(sizes):
        # Python shows no frame of `scores.softmax(-1)`: what attention makes that is larger than
        # its inputs is scores.
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
    """The logits, their log-softmax and the gradients of both, which are of one size.

    Over CHUNKS chunks of the tokens one part of them is there at a time.
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
    """Whether these rows, which a loss made, follow each other so closely, and so often, that it
    is computed over chunks already."""
    apart = np.flatnonzero(np.diff(rows) > 2 * NEAR)
    runs = np.diff(np.concatenate(([-1], apart, [len(rows) - 1])))
    return bool(runs.max(initial=0) >= CHUNKS)


def foreach(lives: Lives) -> Form:
    """What an optimizer computes for all parameters at once, and drops in the same step."""
    return _form(lives, temporaries(lives), (lives.code() & FOREACH) > 0)


def temporaries(lives: Lives) -> Chosen:
    """Those of them that a step lets go of before it ends."""
    made = (lives.code() & FOREACH) > 0
    if not made.any():
        return made
    passing = lives.of("category", "optimizer temporaries", "temporary")
    return made & passing & lives.of("phase", "optimizer")


def stale_gradients(lives: Lives, steps: NDArray[np.int64]) -> Form:
    """Gradients of an earlier step that are there while the next one runs its forward pass; `steps`
    are the events at which steps begin, which may be a guess."""
    gradients = _gradients(lives)
    forward = np.append(lives.start[lives.forward()], lives.events)
    backward = np.flatnonzero(lives.of("category", *BACKWARD) | lives.of("phase", "backward"))
    if not len(steps) or gradients.sum() * len(steps) > MOST:
        return Form(0, 0, None)
    change = np.zeros(lives.events + 1, np.int64)
    stale = np.zeros(len(lives), bool)
    parameters = None if lives.recorded else _parameters(lives)
    for step, end in zip(steps, np.append(steps[1:], lives.events), strict=True):
        # Before it an optimizer may still need them.
        begin = forward[np.searchsorted(forward, step)] if len(forward) > 1 else step
        old = gradients & (lives.start < begin) & (lives.end > begin)
        made = backward[(lives.start[backward] > begin) & (lives.start[backward] < end)]
        if not old.any() or not len(made):
            continue
        if parameters is not None:
            then = lives.start[made[-1]]
            after = gradients & (lives.start <= then) & (lives.end > then)
            old = _fitting(lives, old, parameters)
            old &= (lives.end <= then) | _fitting(lives, after, parameters)
        until = np.minimum(lives.end[old], _made_anew(lives, np.flatnonzero(old), made))
        change[begin] += lives.bytes[old].sum()
        np.add.at(change, until, -lives.bytes[old])
        if begin <= lives.peak < end:
            stale |= old
    return Form(lives.held(stale), lives.lowered(change), lives.largest_stack(stale))


def _gradients(lives: Lives) -> Chosen:
    """What may be a gradient that stays: temporaries of a backward pass and workspaces aren't."""
    if lives.recorded:
        return lives.of("category", "gradients")
    chosen = lives.of("category", *GRADIENTS)
    chosen &= (lives.code() & WORKSPACE) == 0
    chosen &= lives.age() > NEXT
    return chosen


def _parameters(lives: Lives) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(the sizes that parameters may have, how many have each): of what was there when the first
    gradient was made, and isn't made by a forward pass."""
    backward = lives.of("category", *BACKWARD)
    others = ~backward & ~lives.forward()
    first = lives.start[backward].min(initial=lives.events)
    there = others & (lives.start < first) & (lives.end > first)
    return np.unique(np.concatenate([lives.bytes[there], lives.carried]), return_counts=True)


def _fitting(
    lives: Lives, chosen: Chosen, parameters: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> Chosen:
    """Those of them that can be gradients of the parameters: of their sizes, and no more of a size
    than there are. The oldest of too many are workspaces."""
    sizes, counts = parameters
    rows = np.flatnonzero(chosen)[::-1]
    rows = rows[np.argsort(lives.bytes[rows], kind="stable")]
    size = lives.bytes[rows]
    rank = np.arange(len(rows)) - np.searchsorted(size, size)
    at = np.minimum(np.searchsorted(sizes, size), max(0, len(sizes) - 1))
    found = np.zeros(len(lives), bool)
    if len(sizes):
        found[rows[(sizes[at] == size) & (rank < counts[at])]] = True
    return found


def _made_anew(lives: Lives, old: NDArray[np.int64], made: NDArray[np.int64]) -> NDArray[np.int64]:
    """When a backward pass that made these rows has made each of the gradients again: in their
    order, by their sizes; those of no such size at its end."""
    until = np.full(len(old), lives.start[made[-1]])
    for size in np.unique(lives.bytes[old]):
        which = np.flatnonzero(lives.bytes[old] == size)
        # What is added to the old gradient is what the new one would be: there until it goes.
        again = lives.end[made[lives.bytes[made] == size]][: len(which)]
        until[which[: len(again)]] = np.minimum(again, until[which[: len(again)]])
    return until


def _form(lives: Lives, chosen: Chosen, place: Chosen, part: float = 1.0) -> Form:
    stack = lives.largest_stack(chosen & place)
    return Form(
        lives.held(chosen),
        lives.saved(chosen, part=part),
        lives.largest_stack(chosen) if stack is None else stack,
    )


def _kept(lives: Lives) -> Chosen:
    return lives.of("category", *KEPT)


def _sizes(lives: Lives, chosen: Chosen, times: tuple[int, ...]) -> NDArray[np.int64]:
    """The sizes of which these have most bytes, and those of other types of as many elements."""
    sizes = lives.bytes[chosen & (lives.bytes >= LEAST)]
    values, counts = np.unique(sizes, return_counts=True)
    most = values[np.argsort(-values * counts)[:SIZES]]
    found = [most * n for n in times] + [most // n for n in times[1:]]
    return np.unique(np.concatenate(found))
