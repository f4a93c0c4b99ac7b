"""The lower axis of a timeline: where buckets, annotations and events lie on it."""

from __future__ import annotations

from dataclasses import dataclass

from memreplay.analysis.moments.records import OutOfMemory
from memreplay.commands.timeline.result import Series, TimelineReport
from memreplay.render.axes import Tick, clock_ticks, elapsed_ticks, event_ticks
from memreplay.render.units import fine_duration, time_utc
from memreplay.snapshot.model import Span


@dataclass(frozen=True)
class Axis:
    """From `start` to before `stop`, for all devices: events, or microseconds.

    Times are since each device's first event, or `absolute`, since the epoch.
    """

    kind: str
    start: int
    stop: int
    absolute: bool
    idle: bool = False
    """Whether events were taken because most of the time is idle."""

    @classmethod
    def of(cls, report: TimelineReport, absolute: bool) -> Axis:
        """What all devices of the report need."""
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
        """How long it is."""
        return self.stop - self.start

    def edges(self, series: Series) -> list[int]:
        """Where its buckets begin, and where the last one ends."""
        buckets = series.buckets
        if self.kind == "event":
            begins = [max(event, series.first_event) for event in buckets.event_index]
            return [*begins, series.first_event + max(series.events, 1)]
        if series.start_us is None or series.stop_us is None:  # it has no events
            return [self.start, self.stop]
        zero = self.zero(series)
        return [*((time or 0) - zero for time in buckets.time_us), series.stop_us + 1 - zero]

    def zero(self, series: Series) -> int:
        """What is taken off a time."""
        return 0 if self.absolute else series.start_us or 0

    def extent(self, span: Span, series: Series) -> tuple[int, int]:
        """Where an annotation begins and ends; without an end, where the device's events do."""
        if self.kind == "event":
            stop = series.first_event + series.events
            end = stop if span.end_event is None else span.end_event + 1
            return span.start_event + 1, end
        stop = (series.stop_us or 0) + 1
        zero = self.zero(series)
        return span.start_us - zero, (stop if span.end_us is None else span.end_us) - zero

    def at(self, oom: OutOfMemory, series: Series) -> int:
        """Where an event is."""
        if self.kind == "event":
            return oom.event_index
        return (series.start_us or 0 if oom.time_us is None else oom.time_us) - self.zero(series)

    def ticks(self, most: int) -> list[Tick]:
        """Up to about so many."""
        if self.kind == "event":
            return event_ticks(self.start, self.stop, most)
        if self.absolute:
            return clock_ticks(self.start, self.stop - 1, most)
        return elapsed_ticks(self.stop - 1, most)

    def name(self) -> str:
        """What it is."""
        if self.kind == "event":
            return "events"
        if self.absolute:
            return f"time (UTC), from {time_utc(self.start)}"
        return "time since the first event"

    def words(self, width: int) -> str:
        """The same, how much one of `width` characters is, and why it is not time."""
        each = self.whole / width
        words = self.name()
        if each >= 1 and self.kind == "time":
            words += f", {fine_duration(int(each))} a character"
        elif each >= 1:
            words += f", {each:{'.0f' if each >= 10 else '.1f'}} a character"
        return f"{words}; most of the time is idle (--x time shows it)" if self.idle else words

    def column(self, at: int, width: int) -> int:
        """The one of `width` characters in which it lies."""
        return min(max((at - self.start) * width // self.whole, 0), width - 1)
