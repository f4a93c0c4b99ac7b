"""Compare two snapshots at two moments: groups, and a call tree."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memreplay.analysis.groups.ways import WAYS, is_of_parts, ways_of
from memreplay.explore.rows.row import Line, Shown, frame_texts, named_line, named_shown
from memreplay.render.blocks import place_text
from memreplay.render.document import Place
from memreplay.render.units import counted, signed_size, size
from memreplay.snapshot.model import When
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.analysis.comparing.records import DiffRow
    from memreplay.analysis.comparing.sides import Sided, SnapshotSide
    from memreplay.explore.explored import Explored
    from memreplay.explore.look import Look
    from memreplay.snapshot.model import By, Frame

OPEN_SHARE = 0.05  # calls with more than this share of the largest change start expanded

PARTLY = "partly guessed"  # as in `diff`


class DifferenceRows:
    """Both snapshots' groups, matched by call site, largest change first."""

    titles: tuple[str, ...] = ("change", "before", "after")

    def __init__(self, found: Sequence[DiffRow], by: By) -> None:
        self.by = by
        self.found = [row for row in found if row.status != "same"]
        self.most = max((abs(row.change_bytes) for row in self.found), default=0)
        self.note = "" if self.found else "both hold the same"

    def __len__(self) -> int:
        return len(self.found)

    def line(self, at: int) -> Line:
        row = self.found[at]
        cells = signed_size(row.change_bytes), size(row.base_bytes), size(row.new_bytes)
        share = abs(row.change_bytes) / self.most
        line = named_line(cells, row, share, self.by, row.change_bytes)
        if not row.guessed:
            return line
        return line._replace(tail=f"({PARTLY})")

    def key(self, at: int) -> Hashable:
        row = self.found[at]
        return row.label, row.frames

    def texts(self, at: int) -> Sequence[str]:
        row = self.found[at]
        return [row.label, *frame_texts(row.frames)]

    def shown(self, at: int) -> Shown:
        row = self.found[at]
        pairs = (
            ("change", f"{signed_size(row.change_bytes)} ({row.status})"),
            ("before", f"{size(row.base_bytes)} in {counted(row.base_count, 'block')}"),
            ("after", f"{size(row.new_bytes)} in {counted(row.new_count, 'block')}"),
            *([("category", PARTLY)] if row.guessed else ()),
        )
        return named_shown(row, pairs, self.by)


@dataclass(slots=True)
class Call:
    """A function in one file with its callees, in both snapshots."""

    name: str
    key: Hashable
    level: int
    frame: Frame | None = None
    before: int = 0
    after: int = 0
    differs: bool = False  # whether this call or any call below it differs
    calls: dict[tuple[str, str], Call] = field(default_factory=dict)

    @property
    def change(self) -> int:
        return self.after - self.before

    @property
    def place(self) -> tuple[str, str]:
        """The function and the file."""
        return (self.frame.function, self.frame.file) if self.frame is not None else ("", "")

    def count(self, row: DiffRow) -> None:
        """Add a row's bytes."""
        self.before += row.base_bytes
        self.after += row.new_bytes
        self.differs |= bool(row.change_bytes)


class DifferenceTree:
    """The comparison as a call tree, outermost first. Calls with the same function and file are
    merged, whatever their lines.
    """

    titles: tuple[str, ...] = ("change", "before", "after")

    def __init__(
        self,
        found: Sequence[DiffRow],
        *,
        inverted: bool,
        is_open: Callable[[Hashable], bool | None],
    ) -> None:
        self.root = Call("", (), 0)
        self.inverted, self.is_open = inverted, is_open
        for row in found:
            self._add(row)
        self.most = max((abs(one.change) for one in self.root.calls.values()), default=0)
        self.visible: list[Call] = []
        self.unfold()
        self.note = "" if self.visible else "both hold the same"

    def _add(self, row: DiffRow) -> None:
        frames = [row.frames[i] for i in row.user] or list(row.frames[:1])
        call = self.root
        for frame in frames if self.inverted else reversed(frames):
            place = frame.function, frame.file
            if place not in call.calls:
                name = f"{frame.function} {frame.file}" if frame.file else frame.function
                call.calls[place] = Call(name, hash((call.key, place)), call.level + 1, frame)
            call = call.calls[place]
            call.count(row)
        if not frames:
            place = row.label, ""
            if place not in call.calls:
                call.calls[place] = Call(row.label, hash(place), 1)
            call.calls[place].count(row)

    def unfold(self) -> None:
        """Compute the visible calls."""
        found: list[Call] = []
        waiting = self._below(self.root)
        while waiting:
            call = waiting.pop()
            found.append(call)
            if self.opened(call):
                waiting += self._below(call)
        self.visible = found

    def _below(self, call: Call) -> list[Call]:
        """Return the visible callees in reverse order."""
        some = [one for one in call.calls.values() if one.differs]
        return sorted(some, key=lambda one: (abs(one.change), one.after, one.name))

    def opened(self, call: Call) -> bool:
        """Return whether a call is expanded."""
        if not self.can_open(call):
            return False
        asked = self.is_open(call.key)
        return abs(call.change) >= OPEN_SHARE * self.most if asked is None else asked

    def can_open(self, call: Call) -> bool:
        """Return whether anything below the call differs."""
        return any(one.differs for one in call.calls.values())

    def all_keys(self) -> list[Hashable]:
        """Return the keys of all calls, visible or not."""
        return _keys(list(self.root.calls.values()))

    def keys_below(self, row: int) -> list[Hashable]:
        """Return the keys of a row's call and of all calls below it."""
        return _keys([self.visible[row]])

    def __len__(self) -> int:
        return len(self.visible)

    def line(self, at: int) -> Line:
        call = self.visible[at]
        sign = ("-" if self.opened(call) else "+") if self.can_open(call) else ""
        cells = signed_size(call.change), size(call.before), size(call.after)
        share = abs(call.change) / self.most if self.most else 0.0
        place = Place(call.name) if call.frame is None else Place(*call.place)
        name, level = place_text(place), call.level - 1
        return Line(cells, name, share, level, sign, places=(place,), change=call.change)

    def key(self, at: int) -> Hashable:
        return self.visible[at].key

    def texts(self, at: int) -> Sequence[str]:
        return (self.visible[at].name,)

    def shown(self, at: int) -> Shown:
        call = self.visible[at]
        pairs = (
            ("change", signed_size(call.change)),
            ("before", size(call.before)),
            ("after", size(call.after)),
        )
        name = call.name if call.frame is None else posixpath.basename(call.frame.function)
        frames = () if call.frame is None else (call.frame,)
        return Shown(clean(name), pairs, frames, (0,) if frames else ())


def _keys(waiting: list[Call]) -> list[Hashable]:
    """Return the keys of calls and of all calls below them."""
    found: list[Hashable] = []
    while waiting:
        call = waiting.pop()
        found.append(call.key)
        waiting += call.calls.values()
    return found


class Differences:
    """Two snapshots being compared."""

    def __init__(self, base: Explored, new: Explored) -> None:
        self.both = base, new
        self.open: dict[Hashable, bool] = {}
        self._sides: dict[object, tuple[SnapshotSide, SnapshotSide]] = {}
        self._found: tuple[object, list[DiffRow]] | None = None

    def rows(self, base: Look, new: Look) -> DifferenceRows | DifferenceTree:
        """Return the differences, as seen in the new snapshot's view. Raises UsageError."""
        # Imported late, because it's only needed to compare two snapshots
        from memreplay.analysis.comparing.rows import folded

        by = "stack" if new.view == "tree" or new.measure == "reserved" else new.by
        if new.measure == "reserved":
            by = new.by if is_of_parts(new.by) else "pool"
        found = self._compared(base, new, by)
        if new.view == "tree" and new.measure != "reserved":
            return DifferenceTree(found, inverted=new.inverted, is_open=self.open.get)
        return DifferenceRows(folded(found) if by == "stack" and not new.whole else found, by)

    def _compared(self, base: Look, new: Look, by: str) -> list[DiffRow]:
        from memreplay.analysis.comparing.rows import compared, marked_as_guessed
        from memreplay.analysis.comparing.sides import Scope

        asked = by, new.filters
        key = (
            asked,
            base.event,
            new.event,
            base.device,
            new.device,
            new.measure,
            new.pool,
            new.stream,
        )
        if self._found is None or self._found[0] != key:
            if asked not in self._sides:
                self._sides = {asked: self._made(by, new)}
            found: list[Sided] = []
            guessed: frozenset[str] = frozenset()
            for side, one, look in zip(self._sides[asked], self.both, (base, new), strict=True):
                when = _when(one, look)
                scope = Scope(new.measure, when, pool=new.pool, stream=new.stream)
                found.append(side.at(look.device, scope))
                guessed |= side.guessed(look.device, scope, look.event)
            self._found = key, marked_as_guessed(compared(*found), guessed)
        return self._found[1]

    def _made(self, by: str, look: Look) -> tuple[SnapshotSide, SnapshotSide]:
        from memreplay.analysis.comparing.sides import SnapshotSide, keep_common_frames
        from memreplay.analysis.selecting.selection import Selection

        first, second = (
            SnapshotSide(one.snap, Selection(by=by, filters=look.filters, rules=one.rules))
            for one in self.both
        )
        # If only one snapshot has recorded categories, guess them for both.
        recorded = any(WAYS[way].recorded for way in ways_of(by))
        if recorded and None in (first.snap.recorded, second.snap.recorded):
            first.guess = second.guess = True
        keep_common_frames(first, second)
        return first, second


def _when(explored: Explored, look: Look) -> When:
    if look.event == explored.replay(look).start:
        return When("start")
    return When("event", look.event)
