"""Tests of analysis/simulating/failing.py."""

from __future__ import annotations

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.simulating.failing import failed_request
from memreplay.snapshot.model import Frame
from tests import build
from tests.allocator_blocks import MIB
from tests.unit.analysis.simulating.programs import mixed, scattered


def test_first_failing_request_has_its_caller() -> None:
    snap = mr.open(build.dump(scattered()))
    replay, grouper = snap.replay(), Grouper(snap, "stack")
    assert failed_request(replay, grouper, replay.simulate(program_memory=290 * MIB)) is None
    failed = failed_request(replay, grouper, replay.simulate(program_memory=271 * MIB))
    assert failed is not None
    # This is the fourth of five requests. Each request comes after its segment's event.
    assert failed.event_index == replay.events - 3
    assert (failed.request_bytes, failed.time_us) == (18 * MIB, replay.time_us(failed.event_index))
    assert failed.asked_by.frames == (
        Frame("attention", "/srv/model.py", 52),
        Frame("main", "/srv/main.py", 3),
    )


def test_first_of_several_failures_is_returned() -> None:
    snap = mr.open(build.dump(scattered(capacity=240 * MIB)))
    replay = snap.replay()
    ooms = replay.events_of("oom")
    failed = failed_request(replay, Grouper(snap, "stack"), replay.simulate())
    assert len(ooms) == 3
    assert failed is not None
    assert failed.event_index == ooms[0]


def test_requested_size_differs_from_the_segment_size() -> None:
    made = mixed(2)
    snap = mr.open(build.dump(made))
    replay = snap.replay()
    total = replay.recorded.outcome.reserved_peak_bytes // 2
    failed = failed_request(replay, Grouper(snap, "stack"), replay.simulate(program_memory=total))
    assert failed is not None
    event = made["device_traces"][0][failed.event_index]
    assert (event["action"], event["size"]) == ("alloc", failed.request_bytes)
    assert event["size"] % MIB
