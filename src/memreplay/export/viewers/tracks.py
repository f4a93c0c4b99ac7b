"""Place every device's measures, pools, annotations and marks on one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.analysis.moments.marks import ooms_of, spans_read
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_usages, filtering_of, shows_reserved
from memreplay.analysis.selecting.selection import Filters, Selection
from memreplay.analysis.trust.trust import verdict
from memreplay.declared import Options
from memreplay.engine.query._vectors import joined, joined_rows, vector
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
    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

POINTS = 10_000
# Maximum number of pools per device, because each adds a track per measure; the largest are kept.
MOST_POOLS = 16
MOST_LANES = 64  # maximum number of lanes for overlapping annotations


class TraceOptions(Options, frozen=True):
    """What a trace contains."""

    measures: Sequence[MeasureName] | None = None
    points: int = POINTS
    stacks: bool = False
    when: When | None = None
    all_frames: bool = False


@takes(selection=Selection, options=TraceOptions)
def trace_report(snap: Snapshot, selection: Selection, options: TraceOptions) -> TraceReport:
    """Build a trace.

    It has each measure (None: all measures) of each device, the device's pools if there are
    several, its annotations, and its failed requests.

    A series is represented by its lowest, highest and last value in each of `points` equal parts of
    the time, or by every event if `points` is 0. `stacks` adds the live set at `when` (None: the
    peak) for the first measure that has allocations. Raises UsageError if a pool or stream doesn't
    exist, or if reserved memory is to be filtered (with filters, it's left out unless it's named).
    """
    chosen = tuple(dict.fromkeys(options.measures or MEASURES))
    if options.measures is None and (selection.filters or not shows_reserved(snap, selection)):
        chosen = tuple(measure for measure in chosen if measure != "reserved")
    usages = [
        usage
        for measure in chosen
        for usage in chosen_usages(snap, replace(selection, measure=measure))
    ]
    live: StacksReport | None = None
    of_allocations = [measure for measure in chosen if measure != "reserved"]
    if options.stacks and of_allocations:
        live = stacks_report(
            snap,
            replace(selection, measure=of_allocations[0]),
            when=options.when,
            all_frames=options.all_frames,
        )
    replays = {usage.replay.device: usage.replay for usage in usages}
    # One microsecond before the first event of any device.
    times = [replay.time_range for replay in replays.values() if is_timed(replay)]
    origin = min((bounds[0] for bounds in times if bounds is not None), default=None)
    origin = None if origin is None else origin - 1
    maker = _Maker(snap, options.points, origin, selection.filters)
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
        points=options.points,
        origin_us=origin,
        devices=devices,
        stacks=live,
        notes=(*maker.notes, *(live.missing if live else ())),
        truncated=snap.truncation is not None,
    )


class _Maker:
    """Builds tracks, and collects notes about what is left out."""

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
        """Build one device's tracks. `usages`: its measures."""
        timed = is_timed(replay)
        at_ns = event_ns(replay, self.origin_us if timed else None)
        self.notes += untimed_note(replay)
        tracks = []
        for usage in usages:
            trust = verdict(self.snap, usage)
            exactness = trust.exactness
            tracks.append(self._track(usage, at_ns, exactness))
            if split:
                # Handle one measure at a time, because each measure has its own series.
                tracks += (self._track(one, at_ns, exactness) for one in self._pools(usage))
            usage.release()
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

    def _track(self, usage: Usage, at_ns: Vector, exactness: str) -> Track:
        replay = usage.replay
        series = vector(usage.column)
        rows = sampled(series, usage.start_bytes, at_ns, self.points)
        start = at_ns[0] - US if len(at_ns) else 0
        return Track(
            measure=usage.measure,
            pool=usage.pool,
            exactness=exactness,  # type: ignore[arg-type]
            event=joined([[replay.start], rows + replay.first_event]),
            at_ns=joined_rows([start], at_ns, rows, "q"),
            bytes=joined_rows([usage.start_bytes], series, rows, "q"),
        )

    def _pools(self, usage: Usage) -> Iterator[Usage]:
        """Yield a measure's pools, largest first, if there are several."""
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
            # Create a new usage, so that the replay doesn't cache it.
            alone = Usage(replay, usage.measure, pool=pool)
            yield alone if self.filtering is None else self.filtering.filtered(alone)

    def _marks(self, usage: Usage, at_ns: Vector) -> tuple[Mark, ...]:
        replay, peak = usage.replay, usage.peak
        name = f"peak ({usage.measure})"
        marks = [Mark(name, _when(replay, at_ns, peak.event_index), peak.event_index, peak.bytes)]
        for oom in ooms_of(replay):
            when = _when(replay, at_ns, oom.event_index)
            marks.append(Mark("out of memory", when, oom.event_index))
        return tuple(sorted(marks, key=lambda mark: mark.at_ns))

    def _lanes(self, replay: Replay, at_ns: Vector) -> tuple[tuple[Slice, ...], ...]:
        """Distribute annotations over as few lanes as possible so that each lane nests."""
        assert self.origin_us is not None
        last = at_ns[-1]
        slices = []
        for span in spans_read(self.snap, replay):
            begin = min(max(0, (span.start_us - self.origin_us) * US), last)
            end = last if span.end_us is None else (span.end_us - self.origin_us) * US
            end = max(min(end, last), begin)
            slices.append(Slice(span.name, begin, end, span.end_us is None))
        slices.sort(key=lambda one: (one.begin_ns, -one.end_ns))
        # for each lane, the ends of its open slices
        lanes: list[tuple[list[Slice], list[int]]] = []
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
                " others and are left out"
            )
        return tuple(tuple(lane) for lane, _ in lanes)


def _when(replay: Replay, at_ns: Vector, event: int) -> int:
    """Return the time of an event, or of the start."""
    if event == replay.start:
        return at_ns[0] - US if len(at_ns) else 0
    return at_ns[event - replay.first_event]
