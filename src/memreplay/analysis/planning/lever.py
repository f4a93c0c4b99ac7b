"""A lever, and what all levers know about a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from memreplay.analysis.advising.lives import Lives
from memreplay.analysis.planning.calls import Notes
from memreplay.analysis.planning.program import Program
from memreplay.engine.query._vectors import vector

if TYPE_CHECKING:
    from memreplay.analysis.advising.lives import Place
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.analysis.planning.modules import Unit
    from memreplay.analysis.planning.program import Effect
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

Price = Literal["free", "time", "results", "hardware"]
PRICES: tuple[Price, ...] = ("free", "time", "results", "hardware")
"""The possible costs of a lever, cheapest first: nothing to speak of, time, other numerical
results, or more hardware.
"""
How = Literal["change", "set", "edit"]
Certainty = Literal["exact", "usually_exact", "estimated"]
CERTAINTIES: tuple[Certainty, ...] = ("exact", "usually_exact", "estimated")
"""How certain a predicted peak of requested bytes is, most certain first."""


class Lever(NamedTuple):
    """A change to a program, with what it costs."""

    name: str
    """Its name, as in `dryrun --change` if `how` is that."""
    argument: str
    title: str
    """What to do, in a few words."""
    effect: Effect | None
    """None for allocator settings and for recomputed modules."""
    price: Price
    time_share: float | None
    """Additional time, as a share of a step's time; None if unknown."""
    why: str
    """Why it costs that, or what else to know."""
    how: How
    """How to apply it: `change` and `set` from outside, with these options of dryrun and simulate,
    or by editing the program.
    """
    edit: str
    """The lines to write."""
    certainty: Certainty = "estimated"
    """`usually_exact`: only lifetimes change, but some of them are inferred."""
    guess: str = ""
    """Why the effect is an estimate."""
    place: Place | None = None
    """The code to edit."""
    excludes: str = ""
    """Levers with the same word here exclude each other."""
    units: tuple[Unit, ...] = ()
    """The modules to recompute, whose effects replace `effect`."""

    @property
    def named(self) -> str:
        """The name with the argument, as in `dryrun --change`."""
        return f"{self.name}={self.argument}" if self.argument else self.name


class Recording(NamedTuple):
    """A device's recording, as levers see it."""

    snap: Snapshot
    replay: Replay
    grouper: Grouper
    lives: Lives
    notes: Notes | None
    """None if modules weren't recorded."""
    steps: list[int]
    """Events at which steps begin, counted from the first one that was read; may be empty."""
    failed: list[int]
    """Events of failed requests, counted in the same way."""

    @classmethod
    def made(cls, snap: Snapshot, replay: Replay, grouper: Grouper, steps: list[int]) -> Recording:
        """Return a device's recording. `grouper`: one by category."""
        lives = Lives(replay, grouper)
        notes = None if snap.recorded is None else Notes(lives, replay, snap.recorded)
        failed = [event - replay.first_event for event in replay.events_of("oom")]
        return cls(snap, replay, grouper, lives, notes, steps, failed)

    def program(self) -> Program:
        """Return the program as recorded."""
        sizes = [self.replay.value("size", one + self.replay.first_event) for one in self.failed]
        return Program(self.lives, vector(self.failed), vector(sizes))

    @property
    def told(self) -> bool:
        """Whether the file would show a backward pass."""
        return self.lives.recorded or self.replay.events == self.replay.tally.with_stack

    def of(self, *categories: str) -> Vector:
        """Return which rows have one of these categories."""
        return self.lives.of("category", *categories)


Find = Callable[[Recording], Iterator[Lever]]
