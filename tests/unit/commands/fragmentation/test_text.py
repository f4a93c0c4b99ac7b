"""Tests of commands/fragmentation/text.py and render/mapped.py."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.commands.fragmentation.text import fragmentation_document
from memreplay.render.plain import render_plain
from memreplay.snapshot.model import When
from tests import build
from tests.allocator import Machine
from tests.allocator_blocks import MIB, Settings
from tests.build import SnapshotBuilder
from tests.unit.commands.fragmentation.test_find import two_pins
from tests.unit.commands.oom.test_find import KEEP, machine, scattered


def text(snapshot: build.Snapshot, width: int = 100, **options: Any) -> list[str]:
    report = fragmentation_report(mr.open(build.dump(snapshot)), **options)
    return render_plain(fragmentation_document(report), width=width).splitlines()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_report_has_the_expected_lines(width: int) -> None:
    lines = text(scattered().dump()[0], width)
    assert all(len(line) <= width for line in lines)
    whole = " ".join(" ".join(lines).split())
    first = (
        "device 0: 100.0 MiB of 200.0 MiB reserved is free (50.0%), when a request failed, event"
    )
    assert first in whole
    assert "free 100.0 MiB in 20 blocks, largest 5.0 MiB (95.0% is in the others)" in whole
    assert "empty_cache()  releases 0 B" in lines
    assert "slack          0 B allocated beyond the requested sizes" in lines
    assert any(
        line.startswith("100.0 MiB  100.0%  100.0 MiB      20        10  ") for line in lines
    )
    assert any(line.startswith("most free") and line.endswith("50.0%") for line in lines)
    assert any(line.endswith("large, default pool") for line in lines)


def test_remaining_groups_have_a_row() -> None:
    lines = text(two_pins(), at=When("end"), top=1)
    assert any("1 more group (--top 0 shows all)" in line for line in lines)


def test_private_and_pending_memory_is_distinguished() -> None:
    made, device = machine(200 * MIB)
    device.begin_pool((1, 0))
    first = device.malloc(64 * MIB)
    device.end_pool()
    second = device.malloc(16 * MIB)
    assert first is not None
    assert second is not None
    device.free(first)
    device.record_stream(second, 7)
    device.free(second)
    lines = "\n".join(text(made.dump()[0], at=When("end")))
    assert (
        "empty_cache()  releases 16.0 MiB, 16.0 MiB of it once its stream is done;"
        " up to 64.0 MiB more if" in lines
    )
    assert "pending        16.0 MiB in 1 block, freed and waiting for another stream" in lines
    assert "<= 64.0 MiB" in lines
    assert "large, graph pool 1:0" in lines


def test_final_state_is_shown_without_events() -> None:
    lines = text(scattered().dump()[0] | {"device_traces": [[]]})
    assert "device 0: 100.0 MiB of 200.0 MiB reserved is free (50.0%) in the final state" in lines
    assert not any(line.startswith("when ") for line in lines)
    assert any(line.startswith("note: next time, call torch.cuda.memory") for line in lines)


def test_unused_memory_is_unknown_if_more_was_active_than_reserved() -> None:
    builder = SnapshotBuilder().alloc(1 << 30, 80 * MIB).free(1 << 30, 80 * MIB)
    builder.segment(1 << 20, 2 * MIB, blocks=[builder.block(1 << 20, 512, 300)])
    lines = text(builder.build())
    (unused,) = (line for line in lines if line.startswith("unused "))
    assert unused.startswith("unused         not known: segment events are missing")
    # The peak lies outside the file's only segment.
    assert lines[2].startswith("device 0: 2.0 MiB reserved, free memory not known")
    free = "2.0 MiB in 1 block, largest 2.0 MiB, counting only the file's segments"
    assert f"free           {free}" in lines
    assert not any(line.startswith("on average") for line in lines)
    rows = [line.split() for line in lines if line.endswith((" -", "%"))]
    (peak, end) = ([row for row in rows if row[0] == name][-1] for name in ("active", "end"))
    assert peak[-2:] == ["-", "-"]
    assert end[-1] == "100.0%"  # the file shows its segments at the end
    assert not any(line.startswith(("most free", "reserved peak")) for line in lines)


def test_only_the_highest_peak_of_active_memory_has_no_number() -> None:
    made, device = machine(200 * MIB)
    for number in (40, 80, 20):
        block = device.malloc(number * MIB)
        assert block is not None
        device.free(block)
    names = ("2nd active peak", "both peaks", "3rd active peak")
    rows = [line for line in text(made.dump()[0]) if line.startswith(names)]
    assert [row.startswith(name) for row, name in zip(rows, names, strict=True)] == [True] * 3
    assert ["40.0 MiB" in rows[0], "80.0 MiB" in rows[1], "20.0 MiB" in rows[2]] == [True] * 3


def test_missing_segment_events_leave_free_memory_unknown() -> None:
    snapshot = scattered().dump()[0]
    report = fragmentation_report(mr.open(build.dump(snapshot)))
    (device,) = report.devices
    points = tuple(
        replace(point, active_bytes=point.reserved_bytes + 5 * MIB, unused_bytes=-5 * MIB)
        for point in device.moments
    )
    odd = replace(
        device,
        moments=points,
        unused_bytes=-5 * MIB,
        mean_unused_bytes=-MIB,
        in_use_bytes=2 * device.reserved_bytes,
    )
    shown = render_plain(fragmentation_document(replace(report, devices=(odd,))), width=100)
    assert "device 0: 200.0 MiB reserved, free memory not known" in shown
    assert "unused         not known: segment events are missing" in shown
    assert "-5.0 MiB" not in shown
    rows = [line for line in shown.splitlines() if "active peak" in line]
    assert rows
    assert all(row.split()[-2:] == ["-", "-"] for row in rows)
    assert "most free" not in shown


def test_slack_is_unknown_if_more_was_requested_than_blocks_hold() -> None:
    report = fragmentation_report(mr.open(build.dump(scattered().dump()[0])))
    odd = replace(report.devices[0], slack_bytes=-3 * MIB)
    shown = render_plain(fragmentation_document(replace(report, devices=(odd,))), width=100)
    assert "slack          not known: more was requested than blocks hold" in shown
    assert "-3.0 MiB" not in shown


@pytest.mark.parametrize("width", [60, 80])
def test_course_fits_a_narrow_terminal(width: int) -> None:
    report = fragmentation_report(mr.open(build.dump(scattered().dump()[0])))
    device = report.devices[0]
    (peak,) = [one for one in device.moments if one.name == "peak"][:1]
    lower = replace(peak, active_bytes=peak.active_bytes - 1)
    both = (peak, replace(lower, event_index=70), replace(lower, name="reserved", event_index=70))
    odd = replace(report, devices=(replace(device, moments=both),))
    lines = render_plain(fragmentation_document(odd), width=width).splitlines()
    assert any(line.startswith("2nd active peak, reserved peak") for line in lines)
    assert all(len(line) <= width for line in lines)


def test_peak_of_memory_cached_before_the_recording_is_at_the_start() -> None:
    made = Machine(Settings(capacity=200 * MIB))
    device = made.devices[0]
    for number, recorded in ((100, False), (40, True)):
        if recorded:
            made.begin_recording()
        block = device.malloc(number * MIB)
        assert block is not None
        device.free(block)
    (unused,) = (line for line in text(made.dump()[0]) if line.startswith("unused "))
    words = "60.0 MiB: peak reserved (at the start) minus peak active bytes"
    assert unused == f"unused         {words}"


def test_alone_column_has_a_legend() -> None:
    note = "note: alone: free memory that no other group blocks"
    assert note in text(scattered().dump()[0])


def test_report_says_that_there_are_no_segments() -> None:
    assert "neither events nor segments" in " ".join(text(SnapshotBuilder().build()))


def test_blocks_outside_segments_are_reported() -> None:
    made, device = machine(64 * MIB)
    device.malloc(5 * MIB, 0, KEEP)
    snapshot = made.dump()[0]
    snapshot["device_traces"][0].append({"action": "alloc", "addr": 4096, "size": 512, "stream": 0})
    lines = text(snapshot, at=When("end"))
    assert "outside        512 B in 1 live block outside all segments" in lines


def test_kind_stays_legible_on_a_narrow_terminal() -> None:
    made, device = machine(80 * MIB)
    device.malloc(2 * MIB, 0x5555_0000_1000)
    device.malloc(512, 0x5555_0000_1000)
    report = fragmentation_report(mr.open(build.dump(made.dump()[0])), at=When("end"))
    lines = render_plain(fragmentation_document(report), width=80).splitlines()
    for kind in ("large", "small"):
        assert any(f"  {kind}, default " in line for line in lines)


def test_holder_stays_legible_on_a_narrow_terminal() -> None:
    for width in (64, 80):
        lines = text(scattered().dump()[0], width)
        assert all(len(line) <= width for line in lines)
        assert any(line.endswith("large, default pool") for line in lines)
        assert not any(line.endswith("…") for line in lines)
