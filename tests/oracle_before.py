"""Find where carried-over memory comes from, with slow, simple code."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import Any

from memreplay.analysis.categories.before import marks_of
from memreplay.analysis.categories.origins import (
    BEFORE,
    LIKELY_ACTIVATION,
    LIKELY_GRADIENT,
    LIKELY_PARAMETER,
    LIKELY_STATE,
)
from memreplay.engine.query._before import (
    AT_EXIT,
    AT_ZERO_GRAD,
    IN_BACKWARD,
    IN_OPTIMIZER,
    OF_BACKWARD,
    ONE_STATE,
    TWO_STATES,
)
from tests import oracle
from tests.oracle import Lifetime, Stack

HAPPENINGS = ("alloc", "free_requested", "free_completed")
COUNTER_BYTES = 4


@cache
def marks_in(stack: Stack) -> int:
    marks = 0
    for name, file, _ in stack:
        marks |= marks_of(file, name)
    return marks


class Told:
    """What one device's events show about each moment."""

    def __init__(self, snapshot: Any, device: int, *, only_python: bool) -> None:
        self.events = oracle.trace_of(snapshot, device)
        self.only_python = only_python
        self.replayed = oracle.replay(snapshot, device)
        self._stacks = [oracle.stack_of(event) for event in self.events]
        self.frees_tell = self._frees_tell()
        # Events that show where the program is, and whether it's in a backward pass.
        self.shown = [
            (i, self.in_backward(i))
            for i, event in enumerate(self.events)
            if event["action"] in HAPPENINGS and (event["action"] == "alloc" or self.frees_tell)
        ]

    def _frees_tell(self) -> bool:
        same = other = False
        for one in self.replayed.lifetimes:
            at = one.free_index
            if one.alloc_index >= 0 and at is not None and self.events[at]["action"] != "alloc":
                alloc, free = self.frames(one.alloc_index), self.frames(at)
                same |= alloc == free
                other |= alloc != free
        return (other or not same) and any(
            event["action"] == "free_completed" and event.get("frames") for event in self.events
        )

    def frames(self, event: int) -> Stack:
        return self._stacks[event]

    def met(self, event: int, mark: int) -> bool:
        return marks_in(self.frames(event)) & mark != 0

    def in_backward(self, event: int) -> bool:
        frames = self.frames(event)
        if not frames:
            return self.only_python
        name, file, _ = frames[-1]
        return self.met(event, IN_BACKWARD) or marks_of(file, name) & OF_BACKWARD != 0

    def freed_at(self, one: Lifetime) -> int | None:
        """Return where the program is, as shown by the stack of a free."""
        at = one.free_index
        told = self.frees_tell and at is not None and self.events[at]["action"] != "alloc"
        return at if told else None


def likely(snapshot: Any, device: int, *, only_python: bool) -> list[tuple[Lifetime, str]]:
    """Return the carried-over blocks without a stack, in the order in which they're freed, with
    their origins.
    """
    told = Told(snapshot, device, only_python=only_python)
    lives = told.replayed.lifetimes
    before = [one for one in lives if one.alloc_index < 0 and not one.frames]
    before.sort(key=lambda one: math.inf if one.free_index is None else one.free_index)
    made = [one for one in lives if one.alloc_index >= 0]
    stay = Counter(one.size for one in before if one.free_index is None)
    replaced = Counter(one.size for one in before if late(told, one))
    renewed_sizes = Counter(one.size for one in before if in_step(told, one))
    gradients, casts = gradient_sizes(told, made), cast_sizes(told, made)
    trained = fits(gradients, stay, 1)
    cast = fits(casts, stay, 1) and by_half(casts, stay)
    renewed = trained and fits(gradients, renewed_sizes, 2)
    trained = trained and (renewed or few(gradients, replaced))
    trained = trained and (not open_ended(told) or whole_sets(gradients, stay))
    states = states_kept(told, made, gradients, stay) if trained and not renewed else 0
    names: dict[int, list[str]] = {}
    for size, count in stay.items():
        parameters = gradients[size] if trained and gradients[size] <= count else 0
        if cast and casts[size] <= count:
            parameters = max(parameters, casts[size])
        kept = states * gradients[size] if parameters + states * gradients[size] <= count else 0
        if states == 2 and size == COUNTER_BYTES:
            kept += counters(gradients, stay)
        names[size] = [LIKELY_PARAMETER] * parameters + [LIKELY_STATE] * kept
    anew = {size: 2 * count if renewed else 0 for size, count in gradients.items()}
    rows: list[tuple[Lifetime, str]] = []
    for one in before:
        if one.free_index is None:
            name = names[one.size].pop(0) if names[one.size] else BEFORE
        elif in_step(told, one) and anew.get(one.size):
            anew[one.size] -= 1
            name = LIKELY_STATE
        else:
            name = gone(told, one)
        rows.append((one, name))
    return rows


def gradient_sizes(told: Told, made: list[Lifetime]) -> Counter[int]:
    """Return the largest number of gradients per size after a backward pass."""
    found: Counter[int] = Counter()
    mine = [one for one in made if told.in_backward(one.alloc_index)]
    ends = [
        i for (_, was), (i, is_now) in zip(told.shown, told.shown[1:], strict=False) if was > is_now
    ]
    if told.shown and (not told.shown[-1][1] or open_ended(told)):
        ends.append(len(told.events))
    # The recording starts in this backward pass, so some gradients were allocated earlier.
    if told.shown and told.shown[0][1]:
        again = [i for i, is_now in told.shown if is_now and i > ends[0]] if ends else []
        ends = [end for end in ends if again and end > again[0]]
    for end in ends:
        found |= Counter(
            one.size
            for one in mine
            if one.alloc_index < end and (one.free_index is None or one.free_index >= end)
        )
    return found


def open_ended(told: Told) -> bool:
    """Return whether the only backward pass ends with the recording."""
    if not told.shown or not told.shown[-1][1]:
        return False
    passed = [is_now for _, is_now in told.shown]
    begun = sum(now and not was for was, now in zip([False, *passed], passed, strict=False))
    return (
        begun == 1 and not passed[0] and not any(event["action"] == "oom" for event in told.events)
    )


def whole_sets(gradients: Counter[int], stay: Counter[int]) -> bool:
    """Return whether sizes with at least 95% of the gradients' bytes have the same whole number of
    live blocks per gradient as the size with the most bytes.
    """
    _, sets = max((size * count, -(stay[size] // count)) for size, count in gradients.items())
    every = sum(size * count for size, count in gradients.items())
    fit = sum(size * n for size, n in gradients.items() if stay[size] == -sets * n)
    return fit * 20 >= every * 19


def cast_sizes(told: Told, made: list[Lifetime]) -> Counter[int]:
    """Return how many parameters of each size are cast at the same time."""
    found: Counter[int] = Counter()
    kept = [one for one in made if (at := told.freed_at(one)) is not None and told.met(at, AT_EXIT)]
    for new in kept:
        found |= Counter(
            2 * one.size
            for one in kept
            if one.alloc_index <= new.alloc_index and (one.free_index or 0) > new.alloc_index
        )
    return found


def fits(needed: Counter[int], there: Counter[int], sets: int) -> bool:
    """Return whether at least 95% of the needed bytes are in sizes with at least `sets` live blocks
    for each needed one.
    """
    every = sum(size * count for size, count in needed.items())
    fit = sum(size * count for size, count in needed.items() if there[size] >= sets * count)
    return every > 0 and fit * 20 >= every * 19


def few(gradients: Counter[int], replaced: Counter[int]) -> bool:
    """Return whether hardly any gradient bytes have the same size as a freed block."""
    every = sum(size * count for size, count in gradients.items())
    return 20 * sum(size * n for size, n in gradients.items() if replaced[size]) <= every


def by_half(casts: Counter[int], stay: Counter[int]) -> bool:
    """Return whether the cast parameters are at least half of the remaining blocks."""
    fit = sum(size * count for size, count in casts.items() if stay[size] >= count)
    return 2 * fit >= sum(size * count for size, count in stay.items())


def states_kept(
    told: Told, made: list[Lifetime], gradients: Counter[int], stay: Counter[int]
) -> int:
    """Return how many blocks of optimizer state each parameter has."""
    if any(
        one.free_index is None and gradients[one.size] and told.met(one.alloc_index, IN_OPTIMIZER)
        for one in made
    ):
        return 0
    shown = [i for i, _ in told.shown]
    one = any(told.met(i, ONE_STATE) for i in shown)
    two = any(told.met(i, TWO_STATES) for i in shown)
    if one:
        states = 0 if two else 1
    else:
        states = 2 if two or counters(gradients, stay) else 0
    return states if fits(gradients, stay, 1 + states) else 0


def counters(gradients: Counter[int], stay: Counter[int]) -> int:
    """Return how many blocks are step counters of a parameter."""
    parameters = sum(gradients.values())
    others = stay[COUNTER_BYTES] - parameters - 3 * gradients[COUNTER_BYTES]
    return parameters if parameters >= 4 and 0 <= others <= 8 else 0


def late(told: Told, one: Lifetime) -> bool:
    """Return whether a block is freed after a backward pass and isn't a gradient."""
    at = told.freed_at(one)
    if at is None or told.met(at, AT_ZERO_GRAD) or told.in_backward(at):
        return False
    return any(is_now for i, is_now in told.shown if i < at)


def in_step(told: Told, one: Lifetime) -> bool:
    """Return whether a block is freed in an optimizer's step."""
    at = told.freed_at(one)
    return at is not None and late(told, one) and told.met(at, IN_OPTIMIZER)


def gone(told: Told, one: Lifetime) -> str:
    """Return the origin of a block that is freed during the recording."""
    at = told.freed_at(one)
    if at is None:
        return BEFORE
    if told.met(at, AT_ZERO_GRAD):
        return LIKELY_GRADIENT
    (_, begins_midway), *_ = told.shown
    passed = [is_now for i, is_now in told.shown if i <= at]
    begun = sum(now and not was for was, now in zip([False, *passed], passed, strict=False))
    in_first = passed[-1] and begun == 1 and not begins_midway
    return LIKELY_ACTIVATION if in_first else BEFORE
