"""Tests of analysis/simulating/failing.py."""

from __future__ import annotations

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.simulating.failing import failed_request
from memreplay.snapshot.model import Frame
from tests import build
from tests.allocator import MIB
from tests.unit.analysis.simulating.programs import mixed, scattered


def test_the_first_request_that_fails_and_who_asked() -> None:
    snap = mr.open(build.dump(scattered()))
    replay, grouper = snap.replay(), Grouper(snap, "stack")
    assert failed_request(replay, grouper, replay.simulate(total_bytes=290 * MIB)) is None
    failed = failed_request(replay, grouper, replay.simulate(total_bytes=271 * MIB))
    assert failed is not None
    # The last but one of five: each is an alloc, and the event of its segment before.
    assert failed.event_index == replay.events - 3
    assert (failed.request_bytes, failed.time_us) == (18 * MIB, replay.time_us(failed.event_index))
    assert failed.asked_by.frames == (
        Frame("attention", "/srv/model.py", 52),
        Frame("main", "/srv/main.py", 3),
    )


def test_of_several_the_first() -> None:
    snap = mr.open(build.dump(scattered(capacity=240 * MIB)))
    replay = snap.replay()
    ooms = replay.events_of("oom")
    failed = failed_request(replay, Grouper(snap, "stack"), replay.simulate())
    assert len(ooms) == 3
    assert failed is not None
    assert failed.event_index == ooms[0]


def test_what_was_asked_for_is_not_what_its_segment_takes() -> None:
    made = mixed(2)
    snap = mr.open(build.dump(made))
    replay = snap.replay()
    total = replay.recorded.outcome.reserved_peak_bytes // 2
    failed = failed_request(replay, Grouper(snap, "stack"), replay.simulate(total_bytes=total))
    assert failed is not None
    event = made["device_traces"][0][failed.event_index]
    assert (event["action"], event["size"]) == ("alloc", failed.request_bytes)
    assert event["size"] % MIB
