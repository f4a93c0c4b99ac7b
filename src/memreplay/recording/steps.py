"""Find where a program's steps end."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from memreplay.engine.record import _tracker

MOST_OPTIMIZERS = 64  # maximum number of optimizers per step for which times are kept


class Iteration:
    """A step found by watching optimizers, with the time at which each one stepped."""

    __slots__ = ("after_backward", "ends", "waits")

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        """Microseconds since the epoch, by optimizer number."""
        self.waits = False
        """Whether they step inside the backward pass, which then ends the step."""
        self.after_backward = 0
        """When the backward pass ended; 0 if it's running or unknown."""


class Steps:
    """Finds where each step ends: at the program's own marks, or else at optimizer steps.

    An optimizer steps at most once per step.
    """

    def __init__(self) -> None:
        self.said: list[int] = []
        """Ends marked by the program."""
        self.iterations: list[Iteration] = []
        self.told = False
        self.forgotten = 0
        self.after: Callable[[], None] = lambda: None
        """Called at each end."""

    def tell(self) -> None:
        """Mark the end of a step."""
        if not self.told:
            self.told = True
            self.iterations.clear()
        self.said.append(_tracker.now_us())
        self.over()

    def stepped(
        self, optimizer: int, later: Callable[[Callable[[], None]], None] | None = None
    ) -> None:
        """Note an optimizer's step. In a backward pass, `later` schedules a call after it."""
        if self.told:
            return
        begins = not self.iterations or optimizer in self.iterations[-1].ends
        if begins:
            self.close()
            self.iterations.append(Iteration())
        iteration = self.iterations[-1]
        iteration.ends[optimizer] = _tracker.now_us()
        if later is None:
            if begins:
                self.over()
        elif not iteration.waits:
            iteration.waits = begins
            if begins:
                later(lambda: self.backward_ended(iteration))

    def backward_ended(self, iteration: Iteration) -> None:
        """Note that the backward pass in which these optimizers stepped has ended."""
        if not iteration.after_backward and not self.told:
            iteration.after_backward = _tracker.now_us()
            self.over()

    def close(self) -> None:
        """Close the last iteration to further optimizers."""
        if not self.iterations:
            return
        last = self.iterations[-1]
        # The end of the backward pass was never reported.
        if last.waits and not last.after_backward:
            self.backward_ended(last)
        if len(last.ends) > MOST_OPTIMIZERS:
            last.ends = dict(list(last.ends.items())[:MOST_OPTIMIZERS])

    def over(self) -> None:
        _tracker.step()
        self.after()

    @property
    def count(self) -> int:
        """Number of steps that have ended."""
        return self.forgotten + (len(self.said) if self.told else len(self.iterations))

    def forget(self, before_us: int) -> None:
        """Forget the ends of steps before a time, except the last one."""
        ended = self.said or [max(one.ends.values()) for one in self.iterations]
        old = bisect.bisect_left(ended[:-1], before_us)
        if self.told:
            del self.said[:old]
        else:
            del self.iterations[:old]
        self.forgotten += old

    def ends(self) -> list[int]:
        """End of each step, in microseconds since the epoch."""
        return list(self.said) if self.told else list(ends_of(self.iterations))


def ends_of(iterations: Iterable[Iteration]) -> Iterator[int]:
    """Yield each step's end: the time at which the optimizer that steps most often (the first one
    on a tie) stepped.
    """
    iterations = list(iterations)
    counts = Counter(one for iteration in iterations for one in iteration.ends)
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, iteration in enumerate(iterations):
        for one in iteration.ends:
            first.setdefault(one, i)
            last[one] = i
    for i, iteration in enumerate(iterations):
        for group in groups_of(i, list(iteration.ends), counts, first, last):
            leader = max(group, key=lambda one: counts[one])
            yield iteration.after_backward or iteration.ends[leader]


def groups_of(
    i: int, optimizers: list[int], counts: Counter[int], first: dict[int, int], last: dict[int, int]
) -> list[list[int]]:
    """Split an iteration's optimizers.

    If an optimizer replaces others that never step again, its first step starts a new iteration.
    """
    for k in range(1, len(optimizers)):
        old, new = optimizers[:k], optimizers[k:]
        ended = all(last[one] == i for one in old) and any(counts[one] > 1 for one in old)
        if ended and all(first[one] == i and counts[one] > 1 for one in new):
            return [old, new]
    return [optimizers]
