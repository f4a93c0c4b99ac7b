"""One snapshot, and what is asked of it while it is explored."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.ways import WAYS, is_of_parts
from memreplay.analysis.moments.marks import ooms_of
from memreplay.analysis.selecting.choice import filtering_of, fitting_by
from memreplay.analysis.steps.boundaries import known_steps, step_at
from memreplay.analysis.steps.records import Found
from memreplay.analysis.trust.trust import verdict
from memreplay.explore.look import VIEWS, Look
from memreplay.explore.rows.allocations import Allocations
from memreplay.explore.rows.calls import TreeRows
from memreplay.explore.rows.changes import ChangeRows
from memreplay.explore.rows.groups import GroupRows
from memreplay.explore.rows.listed import ListRows
from memreplay.explore.rows.parts import PartRows
from memreplay.explore.rows.row import FIRST_ROWS, Rows
from memreplay.explore.rows.segments import SegmentRows
from memreplay.snapshot.model import MEASURES, By

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.snapshot.model import MeasureName, PeakPoint, Span, Verdict
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

MOST_PEAKS = 50
KEPT = ("stack", "category")  # ways of trees and lists, and of colours
TREE_SHARE = 0.001  # calls that hold less are left out until somebody asks for them


class Curve(NamedTuple):
    """A measure over a window, a value a column: of so many columns the lowest, the highest, and
    the first event after which it is that high."""

    bounds: list[int]
    lows: list[int]
    highs: list[int]
    high_at: list[int]


class Marks(NamedTuple):
    """The moments of a device that mean something, each in order."""

    peaks: list[int]
    steps: list[int]
    ooms: list[int]
    annotations: list[int]


def _counted(look: Look) -> tuple[object, ...]:
    """What of a look says which allocations count, and with what."""
    return look.device, look.measure, look.pool, look.stream, look.filters


class Explored:
    """A snapshot with all that was asked of it before.

    Raises UsageError for what the snapshot has not: a device, a pool, a pattern that no frame
    meets.
    """

    def __init__(self, snap: Snapshot, rules: tuple[Rule, ...] | None = None) -> None:
        self.snap, self.rules = snap, rules
        # Groupers by their ways: those that are often asked for, and the last of the others.
        self._kept: dict[str, Grouper] = {}
        self._last: dict[str, Grouper] = {}
        self._usages: dict[tuple[object, ...], Usage] = {}
        self._peaks: dict[tuple[object, ...], PeakPoint] = {}
        self._verdicts: dict[tuple[object, ...], Verdict] = {}
        self._curve: tuple[tuple[object, ...], Curve] | None = None
        self._rows: tuple[tuple[object, ...], Rows] | None = None
        self._marks: dict[tuple[object, ...], Marks] = {}
        self._steps: dict[int, Found] = {}
        self._spans: dict[int, tuple[Span, ...]] = {}
        # By what is looked at: which calls were opened and closed, which segments are open, how
        # small calls are shown, how far down somebody went.
        self.open: dict[Hashable, bool] = {}
        self.opened: set[int] = set()  # the addresses of segments
        self.share = TREE_SHARE
        self.most = FIRST_ROWS
        self.root: Hashable | None = None

    # ---- what there is

    def replay(self, look: Look) -> Replay:
        return self.snap.replay(look.device)

    def bounds(self, device: int) -> tuple[int, int]:
        """The first and the last event that a cursor may be at."""
        replay = self.snap.replay(device)
        return replay.start, replay.start + replay.events

    def first_look(self, device: int, measure: MeasureName = "requested") -> Look:
        """All of a device, the cursor at its peak."""
        low, high = self.bounds(device)
        look = Look(device=device, event=low, first=low, last=high, measure=measure)
        return replace(look, event=self.peak(look).event_index)

    def usage(self, look: Look) -> Usage:
        """The measure, of what passes the filters. Raises UsageError."""
        key = _counted(look)
        if key not in self._usages:
            replay = self.snap.replay(look.device)
            if any(other[:2] != key[:2] for other in self._usages):
                self._let_go()
            usage = replay.measure(look.measure, pool=look.pool, stream=look.stream)
            _ = usage.start_bytes  # looked up only now
            filtering = filtering_of(self.snap, look.filters)
            found = usage if filtering is None else filtering.filtered(usage)
            self._usages[key] = found
        return self._usages[key]

    def peak(self, look: Look) -> PeakPoint:
        """The highest point of the measure. Raises UsageError."""
        key = _counted(look)
        if key not in self._peaks:
            self._peaks[key] = self.usage(look).peak
        return self._peaks[key]

    def _let_go(self) -> None:
        """Of what was made for another measure: it is made anew in less time than a key takes."""
        self._rows = self._curve = None  # rows hold on to what they are made of
        for usage in self._usages.values():
            usage.release()
        for device in self.snap.devices:
            self.snap.replay(device).forget()
            self.snap.replay(device).forget_holding()
        self._usages.clear()

    def chores(self, look: Look) -> list[Callable[[], object]]:
        """What takes a while and is likely asked for: done before somebody does."""
        replay = self.replay(look)

        def judged(measure: MeasureName) -> Callable[[], object]:
            return lambda: self.verdict(replace(look, measure=measure))

        def blocks() -> None:
            for usage in self._usages.values():
                usage.release()
            _ = replay.blocks
            _ = self.usage(look).column  # the next key asks for it

        return [
            lambda: self.grouper("category", fold=False).groups(self.usage(look), look.event, 1),
            lambda: replay.holding,
            blocks,
            *map(judged, MEASURES),
            replay.forget_holding,  # no verdict needs it any more
        ]

    def verdict(self, look: Look) -> Verdict:
        """How far its numbers can be trusted."""
        key = (look.device, look.measure)
        if key not in self._verdicts:
            replay = self.replay(look)
            self._verdicts[key] = verdict(self.snap, replay.measure(look.measure))
            replay.forget()
        return self._verdicts[key]

    def grouper(self, by: By, *, fold: bool) -> Grouper:
        """As reports have it: stacks that differ in plumbing alone are one row."""
        key = f"{by}, folded" if fold and by == "stack" else by
        found = self._kept.get(key) or self._last.get(key)
        if found is None:
            found = Grouper(self.snap, by, self.rules, fold=fold and by == "stack")
            if key in KEPT:
                self._kept[key] = found
            else:  # each has 10 to 40 bytes an allocation
                self._last = {key: found}
        if not is_of_parts(by):
            for device in self.snap.devices:
                self.snap.replay(device).forget_classes()
        return found

    def measures(self, look: Look) -> tuple[MeasureName, ...]:
        """Those that this device can show."""
        if look.filters:
            return tuple(name for name in MEASURES if name != "reserved")
        return MEASURES

    def ways(self, look: Look) -> tuple[By, ...]:
        """The ways to group."""
        if look.measure == "reserved":
            return tuple(way for way in WAYS if is_of_parts(way))
        if look.view == "change":
            return tuple(way for way in WAYS if not is_of_parts(way))
        return tuple(WAYS)

    def fitting(self, look: Look) -> Look:
        """The same look, where what is looked at can be shown so: reserved memory has no calls and
        no single allocations."""
        if look.measure == "reserved":
            by = look.by if is_of_parts(look.by) else "pool"
            view = look.view if look.view == "segments" else "groups"
            return replace(look, by=by, view=view)
        if look.view == "change" and look.span is None:
            return replace(look, view=VIEWS[0])
        if look.view == "change" and is_of_parts(look.by):
            return replace(look, by="stack")  # of a range there are allocations alone
        fitting_by(look.measure, look.by)
        return look

    # ---- over time

    def curve(self, look: Look, columns: int) -> Curve:
        """The measure in the window, in so many columns."""
        key = (*_counted(look), look.first, look.last, look.axis, columns)
        if self._curve is None or self._curve[0] != key:
            usage = self.usage(look)
            cuts = self.cuts(look, columns)
            self._curve = key, Curve(cuts, *usage.ranges(cuts))
        return self._curve[1]

    def cuts(self, look: Look, columns: int) -> list[int]:
        """The first event of each column, and the one after the last column's; with the start in
        the window its column has one event less."""
        replay = self.replay(look)
        base = replay.first_event
        first, stop = max(look.first, base), look.last + 1
        clock = replay.clock if look.axis == "time" else None
        if clock is None or stop <= first:
            wide = look.last - look.first + 1
            found = [look.first + wide * i // columns for i in range(columns + 1)]
            return [min(max(one, base), max(stop, base)) for one in found]
        begin, end = clock[first - base], clock[stop - 1 - base]
        wide = end - begin + 1
        found = [
            bisect_left(clock, begin + wide * i // columns, first - base, stop - base) + base
            for i in range(columns)
        ]
        return [first, *found[1:], stop]

    def column(self, look: Look, columns: int, event: int) -> int:
        """The column that an event is in; -1 where it is in none."""
        if not look.first <= event <= look.last:
            return -1
        cuts = self.curve(look, columns).bounds
        return max(min(bisect_right(cuts, event) - 1, columns - 1), 0)

    def event_of(self, look: Look, columns: int, column: int) -> int:
        """The event that a column means: where it is highest."""
        curve = self.curve(look, columns)
        low, high = self.bounds(look.device)
        column = min(max(column, 0), columns - 1)
        event = curve.high_at[column] if column else max(look.first, curve.bounds[0] - 1)
        return min(max(event, look.first, low), look.last, high)

    def marks(self, look: Look) -> Marks:
        """Peaks of the measure, ends of steps, failed requests, beginnings of annotations."""
        key = _counted(look)
        if key not in self._marks:
            replay = self.replay(look)
            peaks = self.usage(look).peaks(MOST_PEAKS) if replay.events else ()
            base, last = replay.first_event, replay.start + replay.events
            self._marks[key] = Marks(
                peaks=sorted(point.event_index for point in peaks),
                steps=[piece.stop - 1 + base for piece in self.steps(look).pieces],
                ooms=[one.event_index for one in ooms_of(replay)],
                annotations=sorted(
                    {
                        span.start_event
                        for span in self.spans(look)
                        if replay.start <= span.start_event <= last
                    }
                ),
            )
        return self._marks[key]

    def steps(self, look: Look) -> Found:
        if look.device not in self._steps:
            self._steps[look.device] = known_steps(self.snap, self.replay(look))
        return self._steps[look.device]

    def spans(self, look: Look) -> tuple[Span, ...]:
        if look.device not in self._spans:
            self._spans[look.device] = tuple(spans(self.snap, self.replay(look)))
        return self._spans[look.device]

    def where(self, look: Look) -> str:
        """In which step and annotations the cursor is."""
        from memreplay.render.where import where_words

        replay = self.replay(look)
        if not replay.events:
            return ""
        names = [
            span.name
            for span in self.spans(look)
            if span.start_event < look.event
            and (span.end_event is None or look.event <= span.end_event)
        ]
        return where_words(step_at(self.steps(look), replay, look.event), names[-3:])

    # ---- who holds it

    def allocations(self, usage: Usage, event: int) -> Allocations:
        """What is known of single ones."""
        grouper = self.grouper("stack", fold=False)
        return Allocations(grouper, lambda: self.grouper("category", fold=False), usage, event)

    def rows(self, look: Look) -> Rows:
        """What the list shows. Raises UsageError."""
        key = (look, self.share, self.most, self.root)
        if self._rows is None or self._rows[0] != key:
            self._rows = key, self._made(look)
        return self._rows[1]

    def _made(self, look: Look) -> Rows:
        usage = self.usage(look)
        if look.view == "segments":
            active = self.replay(look).measure("active")
            return SegmentRows(self.allocations(active, look.event), self.opened, self.most)
        if is_of_parts(look.by) and look.view == "groups":
            return PartRows(self.grouper(look.by, fold=False), usage, look.event)
        if look.view == "change" and look.span is not None:
            grouper = self.grouper(look.by, fold=not look.whole)
            return ChangeRows(grouper, usage, look.span, self.most)
        if look.view == "list":
            return ListRows(self.allocations(usage, look.event), self.most)
        if look.view == "groups":
            grouper = self.grouper(look.by, fold=not look.whole)
            return GroupRows(grouper, usage, look.event, self.most)
        return TreeRows(
            self.grouper("stack", fold=False),
            usage,
            look.event,
            whole=look.whole,
            inverted=look.inverted,
            share=self.share,
            is_open=self.open.get,
            root=self.root,
        )
