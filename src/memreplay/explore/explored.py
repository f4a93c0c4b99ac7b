"""One snapshot and the results cached while exploring it."""

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
from memreplay.explore.look import VIEWS, Look, counted
from memreplay.explore.rows.allocations import Allocations
from memreplay.explore.rows.calls import TreeRows, TreeShape
from memreplay.explore.rows.changes import ChangeRows
from memreplay.explore.rows.groups import GroupRows
from memreplay.explore.rows.listed import ListRows
from memreplay.explore.rows.parts import PartRows
from memreplay.explore.rows.row import FIRST_ROWS, Rows
from memreplay.explore.rows.segments import SegmentRows
from memreplay.snapshot.model import MEASURES, By
from memreplay.snapshot.recorded_memory import card_samples

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.commands.oom.result import Oom
    from memreplay.snapshot.model import MeasureName, PeakPoint, Span, Verdict
    from memreplay.snapshot.replay import Replay, Usage
    from memreplay.snapshot.snapshot import Snapshot

MOST_PEAKS = 50
KEPT = ("stack", "category")  # keys used for trees, lists and colours
TREE_SHARE = 0.001  # smaller calls are hidden until their caller is expanded


class Curve(NamedTuple):
    """A measure over a window: each column's minimum, maximum and first event at the maximum."""

    bounds: list[int]
    lows: list[int]
    highs: list[int]
    high_at: list[int]


class Marks(NamedTuple):
    """A device's notable moments, each kind in order."""

    peaks: list[int]
    steps: list[int]
    ooms: list[int]
    annotations: list[int]


def _begins(span: Span) -> int:
    """Return an annotation's first event, or the one before it if it has none."""
    is_empty = span.end_event is not None and span.end_event <= span.start_event
    return span.start_event + (not is_empty)


class Explored:
    """A snapshot with cached results.

    Raises UsageError for an unknown device, or if a pattern matches no frame.
    """

    def __init__(self, snap: Snapshot, rules: tuple[Rule, ...] | None = None) -> None:
        self.snap, self.rules = snap, rules
        # groupers by key: the common ones, and the last other one that was used
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
        self._cards = {one.device: one for one in card_samples(snap)}
        self.causes: dict[tuple[int, int], Oom] = {}  # why requests failed, by device and event
        # for each view: which calls are expanded or collapsed, the size below which calls are
        # hidden, and the number of rows
        self.open: dict[Hashable, bool] = {}
        self.opened: set[int] = set()  # addresses of expanded segments
        self.share = TREE_SHARE
        self.most = FIRST_ROWS
        self.roots: list[Hashable] = []  # calls that the tree was limited to, one inside the other

    @property
    def root(self) -> Hashable | None:
        """The call that the tree is limited to, if any."""
        return self.roots[-1] if self.roots else None

    # ---- available data

    def replay(self, look: Look) -> Replay:
        return self.snap.replay(look.device)

    def bounds(self, device: int) -> tuple[int, int]:
        """Return the first and the last event at which a cursor may be."""
        replay = self.snap.replay(device)
        return replay.start, replay.start + replay.events

    def first_look(self, device: int, measure: MeasureName = "requested") -> Look:
        """Return the view of a whole device with the cursor at its peak."""
        low, high = self.bounds(device)
        look = Look(device=device, event=low, first=low, last=high, measure=measure)
        return replace(look, event=self.peak(look).event_index)

    def first_failure(self, device: int) -> int | None:
        """Return a device's first failed request, where the analysis of one snapshot starts."""
        return next((one.event_index for one in ooms_of(self.snap.replay(device))), None)

    def start_device(self, *, failures: bool) -> int:
        """Return the device with the highest peak or, with `failures`, the first one where a
        request failed.
        """
        devices = self.snap.devices
        failed = (one for one in devices if failures and self.first_failure(one) is not None)
        highest = max(devices, key=lambda one: self.snap.replay(one).peak.bytes)
        return next(failed, highest)

    def usage(self, look: Look) -> Usage:
        """Return the filtered measure. Raises UsageError."""
        key = counted(look)
        if key not in self._usages:
            replay = self.snap.replay(look.device)
            if any(other[:2] != key[:2] for other in self._usages):
                self._let_go()
            usage = replay.measure(look.measure, pool=look.pool, stream=look.stream)
            _ = usage.start_bytes  # accessed so that an invalid filter raises an error here
            filtering = filtering_of(self.snap, look.filters)
            found = usage if filtering is None else filtering.filtered(usage)
            self._usages[key] = found
        return self._usages[key]

    def peak(self, look: Look) -> PeakPoint:
        """Return the measure's peak. Raises UsageError."""
        key = counted(look)
        if key not in self._peaks:
            self._peaks[key] = self.usage(look).peak
        return self._peaks[key]

    def _let_go(self) -> None:
        """Drop other measures' results. They can be recomputed quickly enough for a key press."""
        self._rows = self._curve = None  # rows would keep their source data alive
        for usage in self._usages.values():
            usage.release()
        for device in self.snap.devices:
            self.snap.replay(device).forget()
            self.snap.replay(device).forget_holding()
        self._usages.clear()

    def chores(self, look: Look) -> list[Callable[[], object]]:
        """Return slow computations to run in the background, because their results are likely to be
        needed.
        """
        replay = self.replay(look)

        def judged(measure: MeasureName) -> Callable[[], object]:
            return lambda: self.verdict(replace(look, measure=measure))

        def blocks() -> None:
            for usage in self._usages.values():
                usage.release()
            _ = replay.blocks
            _ = self.usage(look).column  # computed now, because the next key needs it

        return [
            lambda: self.grouper("category", fold=False).groups(self.usage(look), look.event, 1),
            lambda: replay.holding,
            blocks,
            *map(judged, MEASURES),
            replay.forget_holding,  # the verdicts no longer need these results
        ]

    def verdict(self, look: Look) -> Verdict:
        """Return how far the view's numbers can be trusted."""
        key = (look.device, look.measure)
        if key not in self._verdicts:
            replay = self.replay(look)
            self._verdicts[key] = verdict(self.snap, replay.measure(look.measure))
            replay.forget()
        return self._verdicts[key]

    def grouper(self, by: By, *, fold: bool) -> Grouper:
        """Return the grouper that reports use: stacks that differ only in plumbing are merged."""
        key = f"{by}, folded" if fold and by == "stack" else by
        found = self._kept.get(key) or self._last.get(key)
        if found is None:
            found = Grouper(self.snap, by, self.rules, fold=fold and by == "stack")
            if key in KEPT:
                self._kept[key] = found
            else:  # each measure takes 10 to 40 bytes per allocation
                self._last = {key: found}
        if not is_of_parts(by):
            for device in self.snap.devices:
                self.snap.replay(device).forget_classes()
        return found

    def measures(self, look: Look) -> tuple[MeasureName, ...]:
        """Return the measures available for this device."""
        if look.filters:
            return tuple(name for name in MEASURES if name != "reserved")
        return MEASURES

    def ways(self, look: Look) -> tuple[By, ...]:
        """Return the available keys to group by."""
        if look.measure == "reserved":
            return tuple(way for way in WAYS if is_of_parts(way))
        if look.view == "change":
            return tuple(way for way in WAYS if not is_of_parts(way))
        return tuple(WAYS)

    def fitting(self, look: Look) -> Look:
        """Adjust a view to what can be shown. Reserved memory has no calls or allocations."""
        if look.measure == "reserved":
            by = look.by if is_of_parts(look.by) else "pool"
            view = look.view if look.view == "segments" else "groups"
            return replace(look, by=by, view=view)
        if look.view == "change" and look.span is None:
            return replace(look, view=VIEWS[0])
        if look.view == "change" and is_of_parts(look.by):
            return replace(look, by="stack")  # a range can only be grouped by allocation
        fitting_by(look.measure, look.by)
        return look

    # ---- over time

    def curve(self, look: Look, columns: int) -> Curve:
        """Return the measure in the window, reduced to columns."""
        key = (*counted(look), look.first, look.last, look.axis, columns)
        if self._curve is None or self._curve[0] != key:
            usage = self.usage(look)
            cuts = self.cuts(look, columns)
            self._curve = key, Curve(cuts, *usage.ranges(cuts))
        return self._curve[1]

    def cuts(self, look: Look, columns: int) -> list[int]:
        """Return each column's first event, and one past the last event.

        If the window includes the start, the start's column has one event fewer.
        """
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
        """Return an event's column, or -1 outside the window."""
        if not look.first <= event <= look.last:
            return -1
        cuts = self.curve(look, columns).bounds
        return max(min(bisect_right(cuts, event) - 1, columns - 1), 0)

    def event_of(self, look: Look, columns: int, column: int) -> int:
        """Return the event that a column selects: the one at its maximum."""
        curve = self.curve(look, columns)
        low, high = self.bounds(look.device)
        column = min(max(column, 0), columns - 1)
        event = curve.high_at[column] if column else max(look.first, curve.bounds[0] - 1)
        return min(max(event, look.first, low), look.last, high)

    def marks(self, look: Look) -> Marks:
        """Return the peaks, step ends, failed requests and annotation starts."""
        key = counted(look)
        if key not in self._marks:
            replay = self.replay(look)
            peaks = self.usage(look).peaks(MOST_PEAKS) if replay.events else ()
            base, (low, high) = replay.first_event, self.bounds(look.device)
            self._marks[key] = Marks(
                peaks=sorted(point.event_index for point in peaks),
                steps=[piece.stop - 1 + base for piece in self.steps(look).pieces],
                ooms=[one.event_index for one in ooms_of(replay)],
                annotations=sorted(
                    at for at in {*map(_begins, self.spans(look))} if low <= at <= high
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

    def annotations_at(self, look: Look) -> list[str]:
        """Return the names of the annotations that begin at the cursor."""
        return [span.name for span in self.spans(look) if _begins(span) == look.event]

    def where(self, look: Look) -> str:
        """Describe the step and annotations at the cursor."""
        from memreplay.render.where import where_text

        replay = self.replay(look)
        if not replay.events:
            return ""
        names = [
            span.name
            for span in self.spans(look)
            if span.start_event < look.event
            and (span.end_event is None or look.event <= span.end_event)
        ]
        return where_text(step_at(self.steps(look), replay, look.event), names)

    def card_at(self, look: Look, width: int) -> str:
        """Describe the card's memory at the cursor in one line; "" if it wasn't recorded."""
        from memreplay.render.recorded_memory import sample_line

        samples, replay = self._cards.get(look.device), self.replay(look)
        if samples is None or replay.time_range is None:
            return ""
        time = replay.clock_us(look.event)
        return sample_line(samples, replay.time_range[0] if time is None else time, width)

    # ---- what holds the memory

    def allocations(self, usage: Usage, event: int) -> Allocations:
        """Return details of single allocations."""
        grouper = self.grouper("stack", fold=False)
        return Allocations(grouper, lambda: self.grouper("category", fold=False), usage, event)

    def rows(self, look: Look) -> Rows:
        """Return the rows of the list. Raises UsageError."""
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
            TreeShape(look.whole, look.inverted, self.share, self.root),
            self.open.get,
        )
