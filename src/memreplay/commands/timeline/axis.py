"""The x axis of a timeline: positions of buckets, annotations and events."""

from __future__ import annotations

from dataclasses import dataclass

from memreplay.analysis.moments.records import OutOfMemory
from memreplay.commands.timeline.result import Series, TimelineReport
from memreplay.render.axes import Tick, clock_ticks, elapsed_ticks, event_ticks
from memreplay.render.units import fine_duration, time_utc
from memreplay.snapshot.model import Span


@dataclass(frozen=True)
class Axis:
    """The range of events or microseconds that all devices' plots share, from `start` up to but not
    including `stop`. Times are relative to each device's first event, or if `absolute`, to the
    epoch.
    """

    kind: str
    start: int
    stop: int
    absolute: bool
    idle: bool = False
    """Whether events are used because the program was idle most of the time."""

    @classmethod
    def of(cls, report: TimelineReport, absolute: bool) -> Axis:
        """Return the axis that covers all devices of the report."""
        starts, stops = [], []
        for one in report.devices:
            if one.events:
                edges = cls(report.x, 0, 1, absolute).edges(one)
                starts.append(edges[0])
                stops.append(edges[-1])
        start, stop = min(starts, default=0), max(stops, default=1)
        return cls(report.x, start, stop, absolute, report.idle)

    @property
    def whole(self) -> int:
        """Length of the axis."""
        return self.stop - self.start

    def edges(self, series: Series) -> list[int]:
        """Return where each bucket begins, and where the last one ends."""
        buckets = series.buckets
        if self.kind == "event":
            begins = [max(event, series.first_event) for event in buckets.event_index]
            return [*begins, series.first_event + max(series.events, 1)]
        if series.start_us is None or series.end_us is None:  # there are no events
            return [self.start, self.stop]
        zero = self.zero(series)
        return [*((time or 0) - zero for time in buckets.time_us), series.end_us + 1 - zero]

    def zero(self, series: Series) -> int:
        """Return the offset that is subtracted from times."""
        return 0 if self.absolute else series.start_us or 0

    def extent(self, span: Span, series: Series) -> tuple[int, int]:
        """Return where an annotation begins and ends. If the annotation has no end, use the
        device's end.
        """
        if self.kind == "event":
            stop = series.first_event + series.events
            end = stop if span.end_event is None else span.end_event + 1
            return span.start_event + 1, end
        stop = (series.end_us or 0) + 1
        zero = self.zero(series)
        return span.start_us - zero, (stop if span.end_us is None else span.end_us) - zero

    def at(self, oom: OutOfMemory, series: Series) -> int:
        """Return an event's position."""
        if self.kind == "event":
            return oom.event_index
        return (series.start_us or 0 if oom.time_us is None else oom.time_us) - self.zero(series)

    def ticks(self, most: int) -> list[Tick]:
        """Return about `most` ticks at most."""
        if self.kind == "event":
            return event_ticks(self.start, self.stop, most)
        if self.absolute:
            return clock_ticks(self.start, self.stop - 1, most)
        return elapsed_ticks(self.stop - 1, most)

    def name(self) -> str:
        """Return the axis's name."""
        if self.kind == "event":
            return "events"
        if self.absolute:
            return f"time (UTC), from {time_utc(self.start)}"
        return "time since the first event"

    def words(self, width: int) -> str:
        """Return the axis's name, how much each of `width` characters covers, and why the axis
        isn't time.
        """
        each = self.whole / width
        words = self.name()
        if each >= 1 and self.kind == "time":
            words += f", {fine_duration(int(each))} a character"
        elif each >= 1:
            words += f", {each:{'.0f' if each >= 10 else '.1f'}} a character"
        return f"{words}; most of the time is idle (--x time shows it)" if self.idle else words

    def column(self, at: int, width: int) -> int:
        """Return the column of a position, among `width` columns."""
        return min(max((at - self.start) * width // self.whole, 0), width - 1)
