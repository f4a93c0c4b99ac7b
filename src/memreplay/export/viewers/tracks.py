"""Measures, pools, annotations and marks of every device, on one line of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from memreplay.analysis.moments.marks import ooms_of, spans_read
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages, filtering_of
from memreplay.analysis.selecting.selection import Filters, Selection
from memreplay.analysis.trust.trust import verdict
from memreplay.export.viewers.records import (
    DeviceTracks,
    Mark,
    Slice,
    StacksReport,
    TraceReport,
    Track,
)
from memreplay.export.viewers.sampling import US, event_ns, is_timed, sampled, untimed_note
from memreplay.export.viewers.weighted import stacks_report
from memreplay.snapshot.model import MEASURES, MeasureName, When
from memreplay.snapshot.replay import Usage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

POINTS = 10_000
MOST_POOLS = 16  # of a device, the largest; each is a track a measure
MOST_LANES = 64  # of annotations that neither nest nor follow each other


@takes(selection=Selection)
def trace_report(
    snap: Snapshot,
    selection: Selection,
    *,
    measures: Sequence[MeasureName] | None = None,
    points: int = POINTS,
    stacks: bool = False,
    when: When | None = None,
    all_frames: bool = False,
) -> TraceReport:
    """Each measure (all of them where None) on each device, its pools where it has several, what
    was annotated, and where memory was out.

    A series is shown by its lowest, highest and last value in each of `points` equal parts of the
    time; by every event where that is 0. With `stacks` the live set at `when` (the peak where it is
    None) of the first measure of allocations comes with it. Raises UsageError for a pool or stream
    that is not there, and for filters of reserved memory (which is left out with filters unless it
    is named).
    """
    chosen = tuple(dict.fromkeys(measures or MEASURES))
    if measures is None and selection.filters:
        chosen = tuple(measure for measure in chosen if measure != "reserved")
    usages = [
        usage
        for measure in chosen
        for usage in chosen_usages(snap, replace(selection, measure=measure))
    ]
    live: StacksReport | None = None
    of_allocations = [measure for measure in chosen if measure != "reserved"]
    if stacks and of_allocations:
        live = stacks_report(
            snap,
            replace(selection, measure=of_allocations[0]),
            when=when,
            all_frames=all_frames,
        )
    replays = {usage.replay.device: usage.replay for usage in usages}
    # A microsecond before the first event of all devices.
    times = [replay.time_range for replay in replays.values() if is_timed(replay)]
    origin = min((bounds[0] for bounds in times if bounds is not None), default=None)
    origin = None if origin is None else origin - 1
    maker = _Maker(snap, points, origin, selection.filters)
    devices = tuple(
        maker.device(
            replays[device],
            [usage for usage in usages if usage.replay.device == device],
            live,
            split=selection.pool is None and selection.stream is None,
        )
        for device in sorted(replays)
    )
    return TraceReport(
        file=snap.file,
        points=points,
        origin_us=origin,
        devices=devices,
        stacks=live,
        notes=(*maker.notes, *(live.missing if live else ())),
        truncated=snap.truncation is not None,
    )


class _Maker:
    """Makes the tracks of devices; notes what it leaves out."""

    def __init__(
        self, snap: Snapshot, points: int, origin_us: int | None, filters: Filters | None
    ) -> None:
        self.snap = snap
        self.points = points
        self.origin_us = origin_us
        self.filtering = filtering_of(snap, filters)
        self.notes: list[str] = []

    def device(
        self, replay: Replay, usages: list[Usage], live: StacksReport | None, *, split: bool
    ) -> DeviceTracks:
        """All of one device; `usages` are its measures."""
        timed = is_timed(replay)
        at_ns = event_ns(replay, self.origin_us if timed else None)
        self.notes += untimed_note(replay)
        tracks = []
        for usage in usages:
            trust = verdict(self.snap, usage)
            exactness = trust.exactness
            tracks.append(self._track(usage, at_ns, exactness))
            if split:
                # One at a time: each has a series of its own.
                tracks += (self._track(one, at_ns, exactness) for one in self._pools(usage))
        stacks = None
        for one in live.devices if live else ():
            stacks = one if one.device == replay.device else stacks
        return DeviceTracks(
            device=replay.device,
            timed=timed,
            tracks=tuple(tracks),
            lanes=self._lanes(replay, at_ns) if timed else (),
            marks=self._marks(usages[0], at_ns),
            stacks=stacks,
            stacks_ns=0 if stacks is None else _when(replay, at_ns, stacks.event_index),
        )

    def _track(self, usage: Usage, at_ns: NDArray[np.int64], exactness: str) -> Track:
        replay = usage.replay
        series = usage.series
        rows = sampled(series, usage.start_bytes, at_ns, self.points)
        start = at_ns[0] - US if len(at_ns) else 0
        return Track(
            measure=usage.measure,
            pool=usage.pool,
            exactness=exactness,  # type: ignore[arg-type]
            event=np.concatenate([[replay.start], rows + replay.first_event]),
            at_ns=np.concatenate([[start], at_ns[rows]]),
            bytes=np.concatenate([[usage.start_bytes], series[rows]]),
        )

    def _pools(self, usage: Usage) -> Iterator[Usage]:
        """The measure of each pool, the largest first, where there are several."""
        replay = usage.replay
        parts = usage.parts("pool", usage.peak.event_index)
        known = [(part.pool, part.peak_bytes) for part in parts if part.pool]
        if len(known) < 2:
            return
        known.sort(key=lambda part: -part[1])
        if len(known) > MOST_POOLS:
            self.notes.append(
                f"device {replay.device}: {usage.measure}: {MOST_POOLS} pools of {len(known)} have"
                " tracks, the largest"
            )
        for pool, _ in known[:MOST_POOLS]:
            # Not one that the replay remembers.
            alone = Usage(replay, usage.measure, pool=pool)
            yield alone if self.filtering is None else self.filtering.filtered(alone)

    def _marks(self, usage: Usage, at_ns: NDArray[np.int64]) -> tuple[Mark, ...]:
        replay, peak = usage.replay, usage.peak
        name = f"peak ({usage.measure})"
        marks = [Mark(name, _when(replay, at_ns, peak.event_index), peak.event_index, peak.bytes)]
        for oom in ooms_of(replay):
            when = _when(replay, at_ns, oom.event_index)
            marks.append(Mark("out of memory", when, oom.event_index))
        return tuple(sorted(marks, key=lambda mark: mark.at_ns))

    def _lanes(self, replay: Replay, at_ns: NDArray[np.int64]) -> tuple[tuple[Slice, ...], ...]:
        """Annotations on as few lanes as let each one's nest."""
        assert self.origin_us is not None
        last = int(at_ns[-1])
        slices = []
        for span in spans_read(self.snap, replay):
            begin = min(max(0, (span.start_us - self.origin_us) * US), last)
            end = last if span.end_us is None else (span.end_us - self.origin_us) * US
            end = max(min(end, last), begin)
            slices.append(Slice(span.name, begin, end, span.end_us is None))
        slices.sort(key=lambda one: (one.begin_ns, -one.end_ns))
        lanes: list[tuple[list[Slice], list[int]]] = []  # with the ends of what is open
        left_out = 0
        for one in slices:
            for found in lanes:
                ends = found[1]
                while ends and ends[-1] <= one.begin_ns:
                    ends.pop()
                if not ends or one.end_ns <= ends[-1]:
                    break
            else:
                if len(lanes) == MOST_LANES:
                    left_out += 1
                    continue
                found = ([], [])
                lanes.append(found)
            found[0].append(one)
            found[1].append(one.end_ns)
        if left_out:
            self.notes.append(
                f"device {replay.device}: {left_out:,} annotations overlap more than {MOST_LANES}"
                " others, and are left out"
            )
        return tuple(tuple(lane) for lane, _ in lanes)


def _when(replay: Replay, at_ns: NDArray[np.int64], event: int) -> int:
    """The moment of an event, or of the start."""
    if event == replay.start:
        return int(at_ns[0]) - US if len(at_ns) else 0
    return int(at_ns[event - replay.first_event])
