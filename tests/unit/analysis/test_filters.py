"""filters: the measure of what passes, against every allocation's life in plain Python."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.at import at_report
from memreplay.analysis.diff import diff_report
from memreplay.analysis.filters import Filtering
from memreplay.analysis.peak import peak_report
from memreplay.analysis.timeline import timeline_report
from memreplay.errors import UsageError
from memreplay.model import Filters, MeasureName, When
from memreplay.replay import Usage
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder
from tests.strategies import traces

MEASURES: tuple[MeasureName, ...] = ("requested", "held", "active", "allocated")
PATTERNS = ("a", "e", "^", "nowhere", r"py:\w*f", "0|1", "model", ":")


@st.composite
def some_filters(draw: st.DrawFn) -> Filters:
    of_baseline, not_of_it = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
    patterns = st.lists(st.sampled_from(PATTERNS), max_size=2).map(tuple)
    return Filters(
        draw(patterns),
        draw(patterns),
        draw(st.sampled_from([0, 1, 300, 512, 4096, 1 << 20])),
        draw(st.booleans()),
        of_baseline,
        not_of_it,
    )


def passes(snap: mr.Snapshot, filters: Filters, life: tuple[int, int, int, int]) -> bool:
    begin, end, size, stack = life
    frames = [snap.frame(i) for i in snap.native.stack(stack)]
    texts = [f"{frame.file}:{frame.function}" for frame in frames]

    def found(pattern: str) -> bool:
        return any(re.search(pattern, text) for text in texts)

    return (
        size >= filters.min_bytes
        and (end == -1 or not filters.live_at_end)
        and (begin == -1 or not filters.baseline)
        and (begin != -1 or not filters.no_baseline)
        and (any(map(found, filters.include)) or not filters.include)
        and not any(map(found, filters.exclude))
    )


def lives_of(usage: Usage) -> list[tuple[int, int, int, int]]:
    lives = usage.lifetimes
    columns = (lives.alloc_event, lives.free_event, lives.size, lives.stack)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def check(snapshot: build.Snapshot, measure: MeasureName, filters: Filters) -> None:
    snap = mr.open(build.dump(snapshot))
    filtering = Filtering(snap, filters)
    for device in snap.devices:
        whole = snap.replay(device).measure(measure)
        only = filtering.filtered(whole)
        wanted = [life for life in lives_of(whole) if passes(snap, filters, life)]
        assert lives_of(only) == wanted
        events = whole.replay.events
        series = [0] * (events + 1)
        for begin, end, size, _ in wanted:
            for event in range(begin, events if end == -1 else end):
                series[event + 1] += size
        assert [only.start_bytes, *only.series.tolist()] == series
        assert only.peak.bytes == max(series)
        assert only.final_bytes == series[-1]
        assert only.reconciliation_bytes is None
        event = only.peak.event_index
        assert sum(size for _, size in _live(only, event)) == only.peak.bytes
        assert snap.replay(device).measure(measure).bytes_at(event) >= only.bytes_at(event)


def _live(usage: Usage, event: int) -> list[tuple[int, int]]:
    live = usage.live_at(event=event)
    return list(zip(live.alloc_event.tolist(), live.size.tolist(), strict=True))


@given(traces(), st.sampled_from(MEASURES), some_filters())
def test_any_trace(snapshot: build.Snapshot, measure: MeasureName, filters: Filters) -> None:
    check(snapshot, measure, filters)


@settings(max_examples=40)
@given(recordings(max_devices=1), st.sampled_from(MEASURES), some_filters())
def test_what_an_allocator_did(
    recording: Recording, measure: MeasureName, filters: Filters
) -> None:
    check(recording.snapshot, measure, filters)


def snap() -> mr.Snapshot:
    builder = SnapshotBuilder()
    builder.alloc(512, 100, frames=[("f", "model.py", 1)])
    builder.alloc(1024, 30, frames=[("g", "loss.py", 1)])
    builder.free_completed(512, 100)
    return mr.open(build.dump(builder.build()))


def test_every_report_is_of_what_passes() -> None:
    one = snap()
    filters = Filters(include=("loss",))
    (peak,) = peak_report(one, filters=filters).devices
    assert (peak.peak_bytes, peak.event_index, peak.live_count) == (30, 1, 1)
    assert [group.bytes for group in peak.groups] == [30]
    (at,) = at_report(one, [When("event", 0)], filters=filters).devices
    assert (at.live_bytes, at.peak_bytes, at.live_count) == (0, 30, 0)
    (listed,) = at_report(one, [When("peak", 1)], filters=filters, listed=True).devices
    assert [found.bytes for found in listed.allocations] == [30]
    (diff,) = diff_report(one, snap(), filters=filters).devices
    assert (diff.base.bytes, diff.base.count, diff.change_bytes) == (30, 1, 0)
    (series,) = timeline_report(one, by="file", filters=filters).devices
    assert series.buckets.max_bytes == [0, 30, 30]
    assert [layer.bytes for layer in series.layers] == [[0, 30, 30]]
    for report in (
        peak_report(one, filters=filters),
        diff_report(one, snap(), filters=filters),
        timeline_report(one, filters=filters),
    ):
        assert report.filters == filters


def test_parts_are_of_what_passes() -> None:
    (peak,) = peak_report(snap(), by="stream", filters=Filters(min_bytes=31)).devices
    assert [(part.bytes, part.count) for part in peak.parts] == [(100, 1)]


def test_what_cannot_be_filtered() -> None:
    with pytest.raises(UsageError, match="reserved memory is of segments"):
        peak_report(snap(), measure="reserved", filters=Filters(min_bytes=1))
    with pytest.raises(UsageError, match="is not a regular expression"):
        peak_report(snap(), filters=Filters(include=("(",)))
    assert not Filters()


def test_only_the_baseline_and_none_of_it_is_nothing() -> None:
    snap = mr.open(build.dump(SnapshotBuilder().alloc(512, 9).build()))
    with pytest.raises(UsageError, match="--only-baseline and --no-baseline leave nothing"):
        peak_report(snap, filters=Filters(baseline=True, no_baseline=True))
