"""Tests of commands/simulate/find.py."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.simulating.searching import search
from memreplay.commands.simulate.find import simulate_report
from memreplay.snapshot.alloc_conf import spelled
from tests import build
from tests.allocator import GIB, MIB
from tests.build import SnapshotBuilder
from tests.simulated import BASE
from tests.unit.analysis.simulating.programs import scattered

EXPANDABLE = "expandable_segments:True"


def opened(capacity: int = 80 * GIB) -> mr.Snapshot:
    return mr.open(build.dump(scattered(capacity)))


def test_a_device_says_what_its_replay_says() -> None:
    snap = opened()
    replay = snap.replay()
    found = simulate_report(snap, settings=EXPANDABLE, program_memory=(GIB,))
    (one,) = found.devices
    assert (found.file, found.truncated) == (snap.file, False)
    assert (one.device, one.first_event, one.events) == (0, 0, replay.events)
    assert (one.settings, one.recorded_settings) == (EXPANDABLE, "")
    assert (one.total_bytes, one.recorded_total_bytes) == (GIB, None)
    assert one.recorded == replay.recorded.outcome
    assert one.simulated == replay.simulate(EXPANDABLE, total_bytes=GIB).outcome
    assert one.recorded.reserved_peak_bytes == 290 * MIB
    assert one.simulated.reserved_peak_bytes == 200 * MIB
    assert (one.failed, one.stopped_event, one.changed) == (None, None, None)
    assert (one.exactness, one.trusted, one.reasons) == ("exact", True, ())
    assert one.candidates is UNSET


def test_what_ends_early() -> None:
    (one,) = simulate_report(opened(), program_memory=(271 * MIB,)).devices
    assert one.failed is not None
    assert one.stopped_event == one.failed.event_index == one.simulated.failed_event
    assert one.failed.asked_by.frames[0].function == "attention"


def test_what_the_driver_had_is_in_an_event() -> None:
    (one,) = simulate_report(opened(240 * MIB)).devices
    assert (one.total_bytes, one.recorded_total_bytes) == (240 * MIB, 240 * MIB)
    # The segment that was made last is the request's behind it.
    recorded = replace(one.recorded, reserved_peak_event=one.recorded.reserved_peak_event + 1)
    assert one.simulated == recorded
    assert one.recorded.ooms == 3
    (one,) = simulate_report(opened(240 * MIB), settings=EXPANDABLE).devices
    assert (one.simulated.ooms, one.exactness) == (0, "estimated")
    assert one.reasons == ("request_succeeds",)


def test_a_search_has_the_best_first() -> None:
    snap = opened()
    (one,) = simulate_report(snap, search=True).devices
    assert one.candidates is not UNSET
    tried = search(snap.replay(), snap.replay().settings)
    assert [each.settings for each in one.candidates] == [spelled(each.settings) for each in tried]
    best = one.candidates[0]
    assert (one.settings, one.simulated) == (best.settings, best.simulated)
    assert "expandable_segments:True" in best.settings
    assert [each.settings for each in one.candidates if each.is_recorded] == [""]
    assert {each.exactness for each in one.candidates} == {"exact"}


def test_a_search_changes_what_was_set() -> None:
    (one,) = simulate_report(
        opened(), settings="per_process_memory_fraction:0.9", program_memory=(GIB,), search=True
    ).devices
    assert one.candidates is not UNSET
    other = [each for each in one.candidates if "fraction:0.9" not in each.settings]
    assert [(each.settings, each.is_recorded) for each in other] == [("", True)]


def test_a_change_of_nothing() -> None:
    change = mr.Change(factor=0.5, filters=mr.Filters(min_bytes=1 << 40))
    with pytest.raises(mr.UsageError, match="no allocation is chosen"):
        simulate_report(opened(), change=change)


def test_each_device_or_one() -> None:
    b = SnapshotBuilder(2)
    for device in (0, 1):
        at = BASE + device * GIB
        b.segment_alloc(at, (30 + device) * MIB, device).alloc(at, 30 * MIB, device)
    snap = mr.open(build.dump(b.finish_segments().build()))
    assert [one.device for one in simulate_report(snap).devices] == [0, 1]
    (one,) = simulate_report(snap, device=1).devices
    assert (one.device, one.recorded.reserved_peak_bytes) == (1, 31 * MIB)
    with pytest.raises(mr.UsageError, match="no device 2"):
        simulate_report(snap, device=2)


def test_settings_that_there_are_not() -> None:
    with pytest.raises(mr.UsageError, match="there is no allocator setting 'a'"):
        simulate_report(opened(), settings="a:1")


def test_a_part_of_the_recording_begins_with_what_was_there() -> None:
    snap = mr.open(build.dump(scattered()), start=60)
    (one,) = simulate_report(snap, settings=EXPANDABLE).devices
    assert one.first_event == 60
    assert one.simulated.reserved_peak_event >= 59
    assert (one.exactness, one.reasons) == ("estimated", ("began_with_memory",))
