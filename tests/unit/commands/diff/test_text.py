"""Tests of commands/diff/text.py."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from memreplay.analysis.comparing.records import DiffRow, Side
from memreplay.commands.diff.result import DeviceDiff, DiffReport
from memreplay.commands.diff.text import diff_document
from memreplay.render.plain import render_plain
from memreplay.snapshot.model import Label, When
from tests.unit.commands.results import ATTENTION

MIB, GIB = 1 << 20, 1 << 30
BASE = Side(
    bytes=10 * GIB,
    count=100,
    event_index=1_200,
    time_us=None,
    exactness="exact",
    trusted=True,
    reasons=(),
)
NEW = replace(BASE, bytes=12 * GIB, count=130, event_index=1_300)
GREW = DiffRow(
    label=ATTENTION.label,
    frames=ATTENTION.frames,
    user=ATTENTION.user,
    status="grew",
    base_bytes=5 * GIB,
    new_bytes=8 * GIB,
    change_bytes=3 * GIB,
    base_count=96,
    new_count=120,
)
GONE = DiffRow(
    label="(recorded without a stack)",
    status="gone",
    base_bytes=GIB,
    new_bytes=0,
    change_bytes=-GIB,
    base_count=4,
    new_count=0,
)
ADDED = replace(
    GONE,
    status="new",
    base_bytes=0,
    new_bytes=MIB,
    change_bytes=MIB,
    base_count=0,
    new_count=1,
)
DEVICE = DeviceDiff(
    device=0,
    base_device=0,
    measure="held",
    base_bytes=BASE.bytes,
    new_bytes=NEW.bytes,
    change_bytes=NEW.bytes - BASE.bytes,
    base=BASE,
    new=NEW,
    trusted=True,
    rows_total=4,
    rest_change_bytes=-MIB,
    statuses={"grew": 1, "gone": 2},
    rows=(GREW, GONE, ADDED),
)
REPORT = DiffReport(
    base_file="/runs/a.pkl",
    new_file="/runs/b.pkl",
    measure="held",
    by="stack",
    moment=When("peak", 1),
    exact=False,
    devices=(DEVICE,),
)


def lines(report: DiffReport, width: int = 100) -> list[str]:
    return render_plain(diff_document(report), width=width).splitlines()


def test_report_has_the_expected_lines() -> None:
    text = lines(REPORT)
    assert "/runs/a.pkl  (base)" in text
    assert "/runs/b.pkl  (new)" in text
    assert "device 0: peak 10.0 GiB -> 12.0 GiB held, +2.0 GiB (+20.0%)" in text
    assert "base     10.0 GiB in 100 blocks at event 1,200" in text
    assert "groups   1 grew, 2 gone" in text
    rows = [line.split() for line in text]
    assert ["+3.0", "GiB", "5.0", "GiB", "8.0", "GiB", "+24", "grew"] in [row[:8] for row in rows]
    assert ["-1.0", "GiB", "1.0", "GiB", "-", "-4", "gone"] in [row[:7] for row in rows]
    assert ["+1.0", "MiB", "-", "1.0", "MiB", "+1", "new"] in [row[:7] for row in rows]
    assert any("1 more group (--top 0 shows all)" in line for line in text)


def test_moment_and_devices_left_out_are_shown() -> None:
    report = replace(REPORT, moment=When("end"), only_new=(2, 3))
    text = lines(report)
    assert "device 0: at the end 10.0 GiB -> 12.0 GiB held, +2.0 GiB (+20.0%)" in text
    assert "note: device 2, 3 is only in /runs/b.pkl, so not compared" in text


def test_two_final_states_have_no_peak() -> None:
    base, new = (
        replace(side, event_index=-1, trusted=False, reasons=("no_allocations",))
        for side in (BASE, NEW)
    )
    text = lines(replace(REPORT, devices=(replace(DEVICE, base=base, new=new),)))
    assert "device 0: at the end 10.0 GiB -> 12.0 GiB held, +2.0 GiB (+20.0%)" in text
    assert "base     10.0 GiB in 100 blocks at the end" in text


def test_different_device_numbers_are_shown() -> None:
    text = lines(replace(REPORT, devices=(replace(DEVICE, base_device=3),)))
    assert "device 3 -> device 0: peak 10.0 GiB -> 12.0 GiB held, +2.0 GiB (+20.0%)" in text


def test_report_without_changes_still_has_warnings() -> None:
    new = replace(NEW, bytes=BASE.bytes, trusted=False, reasons=("ring_overflow",))
    same = replace(DEVICE, new=new, rows=(), rows_total=0, statuses={"same": 3})
    text = lines(replace(REPORT, devices=(same,)))
    assert "device 0: peak 10.0 GiB -> 10.0 GiB held, 0 B" in text
    assert "note: no group changed" in text
    assert any(line.startswith("warning: new: ") for line in text)


def test_warning_for_both_sides_appears_once() -> None:
    sides = [replace(one, trusted=False, reasons=("ring_overflow",)) for one in (BASE, NEW)]
    device = replace(DEVICE, base=sides[0], new=sides[1])
    text = lines(replace(REPORT, devices=(device,)))
    assert [line.split(": the")[0] for line in text if line.startswith("warning")] == [
        "warning: base and new"
    ]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_lines_fit_the_width(width: int) -> None:
    assert all(len(line) <= width for line in lines(REPORT, width))


def test_rows_by_several_keys_show_all_labels() -> None:
    of = (Label("attention"), Label("x", ATTENTION.frames, ATTENTION.user))
    device = replace(DEVICE, rows=(replace(GREW, of=of),), rows_total=1)
    text = "\n".join(lines(replace(REPORT, by="category,stack", devices=(device,))))
    assert "attention, scaled_dot_" in text
    # With several keys, the callers of a split-off function may differ.
    merged = replace(GREW, label="attention, x")
    device = replace(device, rows=(merged,))
    text = "\n".join(lines(replace(REPORT, by="category,line", devices=(device,))))
    assert "attention, x" in text


def test_narrow_output_drops_the_count_first() -> None:
    assert "  count  " in "\n".join(lines(REPORT, 100))
    narrow = "\n".join(lines(REPORT, 74))
    assert "count" not in narrow
    assert "1 more group (--top 0 shows all)" in narrow
