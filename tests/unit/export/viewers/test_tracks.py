"""tracks: every device's measures, pools, annotations and marks on one time axis."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.selecting.selection import Filters
from memreplay.errors import UsageError
from memreplay.export.viewers import tracks
from memreplay.export.viewers.records import Slice, Track
from memreplay.export.viewers.tracks import trace_report
from memreplay.snapshot.model import MEASURES, When
from tests import views
from tests.build import START_US, SnapshotBuilder
from tests.strategies import traces


def drawn(track: Track) -> dict[int, int]:
    """Return bytes by event."""
    return dict(zip(track.event.tolist(), track.bytes.tolist(), strict=True))


@given(traces(), st.sampled_from((0, 1, 3)))
def test_samples_match_the_series(snapshot: Any, points: int) -> None:
    snap = views.opened(snapshot)
    report = trace_report(snap, points=points)
    assert [one.device for one in report.devices] == list(snap.devices)
    for device in report.devices:
        replay = snap.replay(device.device)
        for track in device.tracks:
            usage = replay.measure(track.measure, pool=track.pool)
            found = drawn(track)
            assert found == {event: usage.bytes_at(event) for event in found}
            assert {replay.start, replay.start + replay.events} <= set(found)
            assert track.at_ns.tolist() == sorted(track.at_ns.tolist())
            assert max(found.values()) == usage.peak.bytes
            assert found[usage.peak.event_index] == usage.peak.bytes or points
        names = [track.measure for track in device.tracks if track.pool is None]
        assert names == [one for one in MEASURES if one != "reserved" or replay.shows_reserved]


def test_every_measure_pool_and_annotation_has_a_track() -> None:
    report = trace_report(views.opened(views.everything()), stacks=True)
    first, second = report.devices
    assert report.origin_us == START_US - 1
    assert {track.pool for track in first.tracks} == {None, (0, 0), (0, 1)}
    assert {track.pool for track in second.tracks} == {None}
    assert [[one.name for one in lane] for lane in first.lanes] == [
        ["step#1", "inner", "step#2", "never;ends\n"],
        ["crossing"],
    ]
    assert first.lanes[0][0] == Slice("step#1", 2000, 6000, False)
    assert first.lanes[0][3].open_end
    assert [mark.name for mark in first.marks] == ["peak (requested)", "out of memory"]
    assert first.marks[0].bytes == 4700
    assert first.stacks is not None
    assert first.stacks.bytes == 4700
    assert first.stacks_ns == first.marks[0].at_ns
    assert report.notes == ()


def test_devices_share_a_time_axis() -> None:
    made = SnapshotBuilder(devices=2)
    made.alloc(0x1000, 1, device=1, time_us=500).alloc(0x1000, 1, device=1, time_us=600)
    made.alloc(0x1000, 1, time_us=550).alloc(0x2000, 1, time_us=580)
    report = trace_report(views.opened(made.build()))
    assert report.origin_us == 499
    at = [device.tracks[0].at_ns.tolist() for device in report.devices]
    assert at == [[50_000, 51_000, 81_000], [0, 1_000, 101_000]]


def test_event_takes_a_microsecond_without_times() -> None:
    report = trace_report(views.opened(views.everything(times=False)), measures=["requested"])
    assert report.origin_us is None
    assert not report.devices[0].timed
    assert report.devices[0].lanes == ()
    assert report.devices[0].tracks[0].at_ns.tolist()[:3] == [0, 1000, 2000]
    assert report.notes[0] == "device 0: its events have no times, so each event takes 1 us"


def test_filters_leave_out_reserved_memory_unless_it_is_requested() -> None:
    snap = views.opened(views.everything())
    kept = Filters(include=("model",))
    report = trace_report(snap, filters=kept, points=0)
    found = {track.measure for track in report.devices[0].tracks}
    assert found == {"requested", "held", "active", "allocated"}
    track = report.devices[0].tracks[0]
    assert max(track.bytes.tolist()) == 1000
    with pytest.raises(UsageError, match="reserved"):
        trace_report(snap, filters=kept, measures=["reserved"])


def test_one_pool_has_only_its_tracks() -> None:
    report = trace_report(views.opened(views.everything()), pool=(0, 1), points=0)
    assert [one.device for one in report.devices] == [0]
    assert {track.pool for track in report.devices[0].tracks} == {(0, 1)}


def test_moment_missing_on_a_device_is_noted() -> None:
    report = trace_report(views.opened(views.everything()), stacks=True, when=When("event", 5))
    assert report.devices[1].stacks is None
    assert report.notes == ("device 1 has no event 5; its events: 0 to 2",)


def test_too_many_pools_and_lanes_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracks, "MOST_POOLS", 1)
    monkeypatch.setattr(tracks, "MOST_LANES", 1)
    report = trace_report(views.opened(views.everything()), measures=["requested"])
    assert report.notes == (
        "device 0: requested: 1 pools of 2 have tracks, the largest",
        "device 0: 1 annotations overlap more than 1 others and are left out",
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_lanes_are_nested(pairs: list[tuple[int, int]]) -> None:
    made = SnapshotBuilder()
    for i in range(10):
        made.alloc((i + 1) << 20, 1, time_us=START_US + i)
    for i, (start, length) in enumerate(pairs):
        for stage, at in (("START", start), ("END", start + length)):
            entry = {"name": f"n{i}", "stage": stage, "device": 0, "time_us": START_US + at}
            made.annotations.append(entry)
    (device,) = trace_report(views.opened(made.build())).devices
    assert sorted(one.name for lane in device.lanes for one in lane) == sorted(
        f"n{i}" for i in range(len(pairs))
    )
    for lane in device.lanes:
        for i, one in enumerate(lane):
            for other in lane[i + 1 :]:
                assert other.begin_ns >= one.begin_ns
                assert other.begin_ns >= one.end_ns or other.end_ns <= one.end_ns
