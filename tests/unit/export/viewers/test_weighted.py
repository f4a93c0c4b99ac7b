"""weighted: stacks add up to the measure, and match a slow count."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.selecting.selection import Filters
from memreplay.errors import UsageError
from memreplay.export.viewers.records import DeviceStacks, StacksReport
from memreplay.export.viewers.weighted import stacks_report
from memreplay.snapshot.model import MeasureName, When
from tests import views
from tests.build import SnapshotBuilder
from tests.strategies import traces


def paths(report: StacksReport, device: DeviceStacks) -> Counter[views.PathOf]:
    found: Counter[views.PathOf] = Counter()
    for one in device.stacks:
        path = tuple(report.frames[i] for i in one.path)
        assert path not in found
        found[path] = one.bytes
    return found


@given(traces(), st.booleans(), st.data())
def test_live_stacks_match_the_oracle(snapshot: Any, all_frames: bool, data: st.DataObject) -> None:
    snap = views.opened(snapshot)
    for device in snap.devices:
        usage = snap.replay(device).measure()
        event = data.draw(st.integers(-1, usage.replay.events - 1))
        report = stacks_report(snap, when=When("event", event), all_frames=all_frames)
        (found,) = (one for one in report.devices if one.device == device)
        live = usage.live_at(event=event)
        assert (found.bytes, found.count) == (usage.bytes_at(event), len(live))
        assert sum(one.bytes for one in found.stacks) == found.bytes
        want = views.live_paths(snapshot, device, event, all_frames=all_frames)
        if want is not None and snap.has_events:
            assert paths(report, found) == want
        break  # other devices may not have this event


@given(traces(), st.booleans())
def test_allocated_stacks_match_the_oracle(snapshot: Any, all_frames: bool) -> None:
    snap = views.opened(snapshot)
    report = stacks_report(snap, what="allocated", all_frames=all_frames)
    for found in report.devices:
        want = views.allocated_paths(snapshot, found.device, all_frames=all_frames)
        if want is not None:
            assert paths(report, found) == want
            assert found.bytes == sum(want.values())


@pytest.mark.parametrize("measure", ["requested", "held", "active", "allocated"])
def test_default_moment_is_the_peak_of_each_device(measure: MeasureName) -> None:
    snap = views.opened(views.everything())
    report = stacks_report(snap, measure=measure)
    assert [one.device for one in report.devices] == [0, 1]
    for one in report.devices:
        peak = snap.replay(one.device).measure(measure).peak
        assert (one.bytes, one.event_index, one.time_us) == (
            peak.bytes,
            peak.event_index,
            peak.time_us,
        )


def test_user_frames_only_merges_stacks() -> None:
    snap = views.opened(views.everything())
    report = stacks_report(snap, when=When("end"))
    found = paths(report, report.devices[0])
    assert [[f.function for f in path] for path in found][:2] == [
        ["train", "Block.forward"],
        [views.LONG[0]],
    ]
    whole = stacks_report(snap, when=When("end"), all_frames=True)
    assert max(len(one.path) for one in whole.devices[0].stacks) == 3


def test_stacks_that_differ_only_in_plumbing_are_merged() -> None:
    made = SnapshotBuilder()
    made.alloc(0x1000, 10, frames=[views.TORCH, views.FORWARD])
    made.alloc(0x2000, 5, frames=[views.FORWARD])
    snap = views.opened(made.build())
    (device,) = stacks_report(snap).devices
    assert [(one.bytes, one.count) for one in device.stacks] == [(15, 2)]
    (device,) = stacks_report(snap, all_frames=True).devices
    assert [one.bytes for one in device.stacks] == [10, 5]


def test_device_without_the_moment_is_reported() -> None:
    snap = views.opened(views.everything())
    report = stacks_report(snap, when=When("event", 5))
    assert [one.device for one in report.devices] == [0]
    assert report.missing == ("device 1 has no event 5; its events: 0 to 2",)
    with pytest.raises(UsageError, match="no event 500"):
        stacks_report(snap, when=When("event", 500))


def test_filters_and_pools_select_allocations() -> None:
    snap = views.opened(views.everything())
    kept = stacks_report(snap, when=When("end"), filters=Filters(include=("model",)))
    assert kept.devices[0].bytes == 1000
    pool = stacks_report(snap, what="allocated", pool=(0, 1))
    assert [(one.device, one.bytes) for one in pool.devices] == [(0, 3000)]


def test_reserved_memory_has_no_stacks() -> None:
    with pytest.raises(UsageError, match="has no stacks"):
        stacks_report(views.opened(views.everything()), measure="reserved")
