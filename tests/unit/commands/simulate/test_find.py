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
from tests.allocator_blocks import GIB, MIB
from tests.build import SnapshotBuilder
from tests.simulated import BASE
from tests.unit.analysis.simulating.programs import scattered

EXPANDABLE = "expandable_segments:True"


def opened(capacity: int = 80 * GIB) -> mr.Snapshot:
    return mr.open(build.dump(scattered(capacity)))


def test_device_matches_its_replay() -> None:
    snap = opened()
    replay = snap.replay()
    found = simulate_report(snap, set=EXPANDABLE, program_memory=(GIB,))
    (one,) = found.devices
    assert (found.file, found.truncated) == (snap.file, False)
    assert (one.device, one.first_event, one.events) == (0, 0, replay.events)
    assert (one.settings, one.recorded_settings) == (EXPANDABLE, "")
    assert (one.program_memory_bytes, one.recorded_program_memory_bytes) == (GIB, None)
    assert one.recorded == replay.recorded.outcome
    assert one.simulated == replay.simulate(EXPANDABLE, program_memory=GIB).outcome
    assert one.recorded.reserved_peak_bytes == 290 * MIB
    assert one.simulated.reserved_peak_bytes == 200 * MIB
    assert (one.failed, one.stopped_event, one.changed) == (None, None, None)
    assert (one.exactness, one.trusted, one.reasons) == ("exact", True, ())
    assert one.candidates is UNSET


def test_nothing_is_compared_with_unknown_reserved_bytes() -> None:
    """Blocks lie outside the segments, so segment events are missing."""
    builder = SnapshotBuilder().alloc(1 << 30, 80 * MIB).free(1 << 30, 80 * MIB)
    builder.segment(1 << 20, 2 * MIB, blocks=[builder.block(1 << 20, 512, 300)])
    (one,) = simulate_report(mr.open(build.dump(builder.build()))).devices
    assert one.recorded is None
    assert "segment_events_disagree" in one.reasons


def test_simulation_ends_at_the_first_failure() -> None:
    (one,) = simulate_report(opened(), program_memory=(271 * MIB,)).devices
    assert one.failed is not None
    assert one.stopped_event == one.failed.event_index == one.simulated.failed_event
    assert one.failed.asked_by.frames[0].function == "attention"


def test_driver_free_bytes_come_from_an_event() -> None:
    (one,) = simulate_report(opened(240 * MIB)).devices
    assert (one.program_memory_bytes, one.recorded_program_memory_bytes) == (240 * MIB, 240 * MIB)
    assert one.recorded is not None
    # The last segment was allocated for the next request.
    recorded = replace(one.recorded, reserved_peak_event=one.recorded.reserved_peak_event + 1)
    assert one.simulated == recorded
    assert one.recorded.oom_count == 3
    (one,) = simulate_report(opened(240 * MIB), set=EXPANDABLE).devices
    assert (one.simulated.oom_count, one.exactness) == (0, "estimated")
    assert one.reasons == ("request_succeeds",)


def test_inferred_memory_is_an_assumption_of_the_simulation_only() -> None:
    """A retry shows that 130 MiB weren't available. How much was available isn't known."""
    b = SnapshotBuilder()
    for at, size in ((0, 30), (100, 40)):
        b.segment_alloc(BASE + at * MIB, size * MIB).alloc(BASE + at * MIB, size * MIB)
    b.free(BASE + 100 * MIB, 40 * MIB).segment_free(BASE + 100 * MIB, 40 * MIB)
    b.segment_alloc(BASE + 200 * MIB, 60 * MIB).alloc(BASE + 200 * MIB, 60 * MIB)
    snap = mr.open(build.dump(b.finish_segments().build()))
    (same,) = simulate_report(snap).devices
    assert (same.program_memory_bytes, same.recorded_program_memory_bytes) == (None, None)
    assert same.reasons == ()
    (other,) = simulate_report(snap, set=EXPANDABLE).devices
    assert other.program_memory_bytes == 130 * MIB - 1
    assert other.recorded_program_memory_bytes is None
    assert "total_inferred" in other.reasons


def test_file_without_events_has_no_doubts_about_a_simulation() -> None:
    snap = mr.open(build.dump({**scattered(), "device_traces": [[]]}))
    (one,) = simulate_report(snap, set=EXPANDABLE).devices
    assert one.reasons == ("no_events",)


def test_search_lists_the_best_first() -> None:
    snap = opened()
    (one,) = simulate_report(snap, search="settings").devices
    assert one.candidates is not UNSET
    tried = search(snap.replay(), snap.replay().settings)
    assert [each.settings for each in one.candidates] == [spelled(each.settings) for each in tried]
    best = one.candidates[0]
    assert (one.settings, one.simulated) == (best.settings, best.simulated)
    assert "expandable_segments:True" in best.settings
    assert [each.settings for each in one.candidates if each.is_recorded] == [""]
    assert {each.exactness for each in one.candidates} == {"exact"}


def test_search_changes_the_given_settings() -> None:
    (one,) = simulate_report(
        opened(), set="per_process_memory_fraction:0.9", program_memory=(GIB,), search="settings"
    ).devices
    assert one.candidates is not UNSET
    other = [each for each in one.candidates if "fraction:0.9" not in each.settings]
    assert [(each.settings, each.is_recorded) for each in other] == [("", True)]


def test_error_if_no_allocation_matches_the_change() -> None:
    with pytest.raises(mr.UsageError, match="no allocation matches, so there is nothing to change"):
        simulate_report(opened(), scale=0.5, min_bytes=1 << 40)


def test_one_or_all_devices_are_simulated() -> None:
    b = SnapshotBuilder(2)
    for device in (0, 1):
        at = BASE + device * GIB
        b.segment_alloc(at, (30 + 2 * device) * MIB, device).alloc(at, 30 * MIB, device)
        blocks = [b.block(at, 30 * MIB)]
        if device:
            blocks.append(b.block(at + 30 * MIB, 2 * MIB, state="inactive"))
        b.segment(at, (30 + 2 * device) * MIB, device, blocks=blocks)
    snap = mr.open(build.dump(b.build()))
    assert [one.device for one in simulate_report(snap).devices] == [0, 1]
    (one,) = simulate_report(snap, device=1).devices
    assert one.recorded is not None
    assert (one.device, one.recorded.reserved_peak_bytes) == (1, 32 * MIB)
    with pytest.raises(mr.UsageError, match="no device 2"):
        simulate_report(snap, device=2)


def test_unknown_settings_are_an_error() -> None:
    with pytest.raises(mr.UsageError, match="no allocator setting 'a'"):
        simulate_report(opened(), set="a:1")


def test_range_starts_with_the_live_blocks() -> None:
    snap = mr.open(build.dump(scattered()), start=60)
    (one,) = simulate_report(snap, set=EXPANDABLE).devices
    assert one.first_event == 60
    assert one.simulated.reserved_peak_event >= 59
    assert (one.exactness, one.reasons) == ("estimated", ("began_with_memory",))
