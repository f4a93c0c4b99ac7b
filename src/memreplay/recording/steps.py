"""Where the steps of a program end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from memreplay.engine.record import _tracker

MOST_OPTIMIZERS = 64  # of a step, whose times are kept


class Iteration:
    """One step of a program that has no say in it: when each optimizer stepped in it."""

    __slots__ = ("after_backward", "ends", "waits")

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        """Microseconds since the epoch, by the optimizer's number."""
        self.waits = False
        """Whether they step inside of the backward pass: the step ends with that."""
        self.after_backward = 0
        """When that was; 0: it isn't over yet, or nobody said so."""


class Steps:
    """A step ends where the program says so. If it never does, it ends where an optimizer has
    stepped. Of several optimizers each steps once in a step, or not at all."""

    def __init__(self) -> None:
        self.said: list[int] = []
        """When each ended, as the program said."""
        self.iterations: list[Iteration] = []
        self.told = False
        self.after: Callable[[], None] = lambda: None
        """What is done where one ends."""

    def tell(self) -> None:
        """The program says that one ends here."""
        if not self.told:
            self.told = True
            self.iterations.clear()
        self.said.append(_tracker.now_us())
        self.over()

    def stepped(
        self, optimizer: int, later: Callable[[Callable[[], None]], None] | None = None
    ) -> None:
        """An optimizer has stepped. In a backward pass, `later` has something done after it."""
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
        """The optimizers that step inside of a backward pass are through."""
        if not iteration.after_backward and not self.told:
            iteration.after_backward = _tracker.now_us()
            self.over()

    def close(self) -> None:
        """The last iteration gets no more optimizers."""
        if not self.iterations:
            return
        last = self.iterations[-1]
        if last.waits and not last.after_backward:  # nobody said that the backward pass was over
            self.backward_ended(last)
        if len(last.ends) > MOST_OPTIMIZERS:
            last.ends = dict(list(last.ends.items())[:MOST_OPTIMIZERS])

    def over(self) -> None:
        _tracker.step()
        self.after()

    @property
    def count(self) -> int:
        """How many have ended."""
        return len(self.said) if self.told else len(self.iterations)

    def ends(self) -> list[int]:
        """When each ended, in microseconds since the epoch."""
        return list(self.said) if self.told else list(ends_of(self.iterations))


def ends_of(iterations: Iterable[Iteration]) -> Iterator[int]:
    """The end of each step: that of the optimizer which steps most often; of equals, the first."""
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
    """The optimizers of an iteration. If one takes over from others that never step again, its
    first step is another iteration than their last."""
    for k in range(1, len(optimizers)):
        old, new = optimizers[:k], optimizers[k:]
        ended = all(last[one] == i for one in old) and any(counts[one] > 1 for one in old)
        if ended and all(first[one] == i and counts[one] > 1 for one in new):
            return [old, new]
    return [optimizers]
