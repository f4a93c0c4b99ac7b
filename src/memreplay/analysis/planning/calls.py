"""Find the calls of recorded modules, and what recomputing them changes.

torch.utils.checkpoint(use_reentrant=False) runs a module without keeping what its backward pass
needs. When the backward pass first needs something of the module, the forward pass runs again, up
to the last result that the backward pass needs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.advising.lives import REDUCES, WORKSPACE
from memreplay.analysis.planning.program import Again, Effect
from memreplay.engine.query._vectors import chosen, constant, counting, joined, vector, zeros
from memreplay.snapshot.recorded import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.analysis.advising.lives import Lives
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.recorded import Recorded
    from memreplay.snapshot.replay import Replay

# A member of a ModuleList or Sequential, such as a block of a transformer.
_MEMBER = re.compile(r"\.\d+(?=\.|$)")
LATEST = 3  # results of a module's last operation
NEAR = 6  # a module's argument is among this many last allocations before it's called


class Call(NamedTuple):
    """A call of a module in a forward pass, with row numbers."""

    first: int
    last: int
    backward: int
    """The first row that the module's backward pass allocates; -1 if there's none."""
    until: int
    """The event before which its backward pass has ended."""


class Notes:
    """The recorder's notes on each row: phases and modules."""

    def __init__(self, lives: Lives, replay: Replay, recorded: Recorded) -> None:
        self.lives = lives
        kinds = recorded.of_events(replay)[lives.start]
        known = kinds != UNKNOWN
        kinds = chosen(known, kinds, 0)
        phases, modules = (vector(recorded.kinds[at]) for at in (1, 2))

        def of_phase(name: str) -> Vector:
            at = recorded.phases.index(name) if name in recorded.phases else -1
            return known & (phases[kinds] == at) if len(phases) else zeros(len(lives), "?")

        self.forward = of_phase("forward")
        self.backward = of_phase("backward")
        self.again = of_phase("recomputation")
        self.module = chosen(known, modules[kinds], -1) if len(modules) else zeros(len(lives)) - 1
        self.names = recorded.modules

    def units(self) -> dict[str, Vector]:
        """Return the modules to recompute, with the numbers of those inside them: the outermost
        members of lists, and a model's direct submodules that contain others but no list. Without
        any of these, all direct submodules.
        """
        members: dict[str, list[int]] = {}
        direct: dict[str, list[int]] = {}
        for number, name in enumerate(self.names):
            match = _MEMBER.search(name)
            parts = name.split(".")
            if match:
                members.setdefault(name[: match.end()], []).append(number)
            elif len(parts) > 1:
                direct.setdefault(".".join(parts[:2]), []).append(number)
        outside = {
            name: numbers
            for name, numbers in direct.items()
            if len(numbers) > 1 and not any(one.startswith(f"{name}.") for one in members)
        }
        found = {**members, **outside} or direct
        return {name: vector(numbers) for name, numbers in found.items()}

    def children(self, unit: str) -> Vector:
        """Return for each row a number of the direct submodule of `unit` that allocated it; -1 for
        the unit itself and for other modules.
        """
        numbers: dict[str, int] = {}
        of = [-1]
        for name in self.names:
            inner = name[len(unit) + 1 :] if name.startswith(f"{unit}.") else ""
            of.append(numbers.setdefault(inner.partition(".")[0], len(numbers)) if inner else -1)
        return vector(of)[self.module + 1]

    def outside(self) -> Vector:
        """Return which rows no unit allocated."""
        inside = joined(list(self.units().values()))
        return ~self.module.is_in(inside)

    def calls(self, modules: Vector) -> list[Call]:
        """Return a module's calls that keep something for a backward pass, in order."""
        mine = self.module.is_in(modules)
        if (mine & self.again).any():
            return []  # it's recomputed already
        forward = (mine & self.forward).rows()
        backward = (mine & self.backward).rows()
        if not len(forward):
            return []
        breaks = (forward[1:] - forward[:-1] != 1).rows() + 1
        firsts = forward[joined([[0], breaks])].tolist()
        lasts = forward[joined([breaks - 1, [len(forward) - 1]])].tolist()
        found: list[Call] = []
        # Passes are in the reverse order of the calls since the last pass.
        waiting: list[tuple[int, int]] = []
        for at, (first, last) in enumerate(zip(firsts, lasts, strict=True)):
            waiting.append((first, last))
            stop = firsts[at + 1] if at + 1 < len(firsts) else len(self.lives)
            low, high = backward.places([last, stop])
            if high > low or stop == len(self.lives):
                found += self._matched(waiting, backward[low:high], stop)
                waiting = []
        return sorted(found)

    def _matched(self, waiting: list[tuple[int, int]], rows: Vector, stop: int) -> Iterator[Call]:
        lives = self.lives
        end = lives.events if stop == len(lives) else lives.start[stop]
        begin = rows[0] if len(rows) else -1
        for first, last in reversed(waiting):
            if begin < 0:
                yield Call(first, last, -1, end)
                continue
            ends = lives.end[first : last + 1]
            ends = ends[(ends > lives.start[begin]) & (ends <= end)]
            until = ends.max(initial=0)
            if not until:
                continue  # it keeps nothing that this pass needs
            yield Call(first, last, begin, until)
            later = rows[lives.start[rows] > until]
            begin = later[0] if len(later) else -1
            if begin < 0:
                return


class _Recomputed(NamedTuple):
    """The changes that recomputing a call makes."""

    ended: Vector
    ends: Vector
    again: Again


class Recomputing:
    """Finds what recomputing modules changes."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.lives = lives = notes.lives
        rows = counting(len(lives))
        reduces = (lives.code() & REDUCES) > 0
        others = (~reduces).rows()
        # For each row, the first one of a run of rows that autograd allocates after a node has run.
        before = joined([[-1], others])[others.places(rows)] + 1
        self._backward = notes.backward.rows()
        self._run = chosen(reduces, before, rows + 1)

    def effect(self, unit: str, calls: list[Call]) -> Effect | None:
        """Return what changes when a module recomputes its calls; None if nothing does."""
        children = self.notes.children(unit)
        found = [one for call in calls if (one := self._of(call, children)) is not None]
        if not found:
            return None
        rows = len(self.lives)
        owners, count = [], 0
        for one in found:
            owners.append(chosen(one.again.owner >= rows, one.again.owner + count, one.again.owner))
            count += len(one.again.like)
        at = joined([one.again.at for one in found])
        order = at.order()
        ended = joined([one.ended for one in found])
        return Effect(
            ended=ended,
            ends=joined([one.ends for one in found]),
            again=Again(
                at[order],
                joined(owners)[order],
                joined([one.again.makes for one in found])[order],
                joined([one.again.like for one in found]),
            ),
        )

    def _of(self, call: Call, children: Vector) -> _Recomputed | None:
        lives = self.lives
        rows = call.first + counting(call.last + 1 - call.first)
        end = lives.end[rows]
        returned = lives.start[call.last + 1] if call.last + 1 < len(lives) else lives.events
        begins = lives.start[call.backward] if call.backward >= 0 else call.until
        stays = end > returned
        # Allocations that end before the module's backward pass are outputs. Later modules need
        # them.
        saved = stays & (end > begins) & (end <= call.until)
        if call.backward < 0:
            saved = stays & (end >= call.until)
        kept = saved.rows()
        if not len(kept):
            return None
        gone = self._unneeded_from(call, rows, children[rows])[kept]
        if not (stays & (end <= begins)).any():
            # The last operation saves the module's result, which is also freed when all modules
            # that use it have run backward.
            gone = chosen(kept == stays.rows()[-1], begins, gone)
        if call.backward < 0:
            return _Recomputed(rows[kept], gone, Again.none())
        first = Again(gone, rows[kept], zeros(len(kept)), vector([]))
        again = self._replayed(rows, saved, begins)
        again = Again(*map(joined, zip(first, again, strict=True)))
        # A result that is made again is freed as soon as the node that needs it has run.
        ends = lives.start.places(end[kept]) - 1
        early = joined([lives.start, [lives.events]])[self._run[ends]].lower(end[kept])
        sooner = (early < end[kept]) & (early > begins)
        return _Recomputed(rows[kept][sooner], early[sooner], again)

    def shared(self, units: dict[str, list[Call]]) -> Again | None:
        """Return what these modules, when they're recomputed, hold together: arguments, up to the
        last backward pass that needs them, and the workspace of the thread that runs it.
        """
        lives = self.lives
        rows, until = [], []
        first = lives.events
        outer = self.notes.outside()
        for calls in units.values():
            for call in calls:
                if call.backward < 0:
                    continue
                begins = lives.start[call.backward]
                first = min(first, begins)
                held = self._arguments(call, outer, begins)
                rows.append(held)
                until.append(constant(call.until, len(held)))
        found = joined(rows)
        held, place = found.numbered()
        ends = zeros(len(held))
        ordered = joined(until).order()  # so that the last one stays
        ends[place[ordered]] = joined(until)[ordered]
        space = self._workspaces() if first < lives.events else held[:0]
        added = len(lives) + counting(len(held))
        spaces = len(lives) + len(held) + counting(len(space))
        at = joined([lives.end[held] + 1, ends, constant(first, len(space))])
        order = at.order()
        if not len(order):
            return None
        return Again(
            at[order],
            joined([added, added, spaces])[order],
            joined([constant(1, len(held)), zeros(len(held)), constant(1, len(space))])[order],
            joined([held, space]),
        )

    def _workspaces(self) -> Vector:
        """Return the rows of cuBLASLt's workspaces that a unit allocated and that stay, if the
        backward pass's thread doesn't have its own yet.
        """
        lives, notes = self.lives, self.notes
        stays = ((lives.code() & WORKSPACE) > 0) & (lives.end == lives.events)
        ours = (stays & notes.forward & ~notes.outside()).rows()
        theirs = lives.bytes[stays & notes.backward]
        return ours[~lives.bytes[ours].is_in(theirs)][:1]

    def _replayed(self, rows: Vector, saved: Vector, at: int) -> Again:
        """Return a forward pass that is made again before an event, up to the last operation with a
        result that is saved.
        """
        lives = self.lives
        start, end, stacks = lives.start[rows], lives.end[rows], lives.stack[rows]
        kept = saved.rows()
        last = kept[-1]
        later = (stacks[last:] != stacks[last]).rows()
        count = last + later[0] if len(later) else len(rows)
        others = (~saved).rows()
        others = others[others < count]
        stop = start[count - 1] + 1
        added = len(lives) + counting(len(others))
        when = joined([start[kept], start[others], end[others].lower(stop)])
        order = when.order()
        owner = joined([rows[kept], added, added])[order]
        makes = joined([constant(1, len(kept) + len(others)), zeros(len(others))])[order]
        return Again(constant(at, len(order)), owner, makes, rows[others])

    def _arguments(self, call: Call, outer: Vector, begins: int) -> Vector:
        """Return the rows of a forward pass that are assumed to be a module's arguments, and that
        are freed before its backward pass has ended: while it runs or when it returns, in its
        backward pass, or in between if no unit allocated them (`outer`) or if they're the latest.
        """
        lives, backward = self.lives, self._backward
        before = backward.places([call.first])[0]
        first = backward[before - 1] + 1 if before else 0
        rows = first + counting(call.first - first)
        end = lives.end[rows]
        after = lives.start[call.last + 1] if call.last + 1 < len(lives) else lives.events
        used = (end <= after) | outer[rows] | (end > begins)
        there = (end > lives.start[call.first]) & self.notes.forward[rows]
        # Small results, such as a norm's statistics, may follow the one that is passed on.
        latest = there.rows()
        latest = latest[latest >= len(rows) - NEAR][-LATEST:]
        if len(latest):
            used[latest[lives.bytes[rows[latest]].argmax()]] = True
        return rows[used & there & (end < call.until)]

    def _unneeded_from(self, call: Call, rows: Vector, modules: Vector) -> Vector:
        """Return for each row of a call the event before which it would be freed if no backward
        pass needed it: once the submodule that uses it has returned or, if the module itself uses
        it, once the result is there.
        """
        lives, count = self.lives, len(rows)
        # The module's own operations, and runs of rows of the same submodule.
        own = modules < 0
        starts = joined([[1], (modules[1:] != modules[:-1]) | own[1:] & _differ(lives.stack[rows])])
        number = starts.sums() - 1
        bounds = joined([starts.rows(), constant(count, 2)])
        # The next run uses a row, also if it's the row's own submodule that returned it.
        ends = bounds[2:][number]
        after = joined([lives.start[rows], [lives.start[call.last] + 1]])
        return after[ends]


def _differ(values: Vector) -> Vector:
    """Return which numbers, from the second one on, differ from the one before."""
    return values[1:] != values[:-1]
