"""Tests of commands/report/text.py: a report fits one screen, with the numbers of each section."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import memreplay as mr
from memreplay.analysis.steps.records import StepSource
from memreplay.commands.app import app
from memreplay.commands.peak.find import peak_report
from memreplay.commands.report.advice_text import advice_title, next_commands
from memreplay.commands.report.find import overview
from memreplay.commands.report.result import Advice, Overview
from memreplay.commands.report.text import report_document, report_line
from memreplay.render.document import Table
from memreplay.render.plain import render_plain
from tests import build
from tests.allocator_blocks import MIB
from tests.allocator_strategies import record
from tests.build import SnapshotBuilder
from tests.commanding import command_runner
from tests.conftest import ROOT
from tests.kineto import Kineto
from tests.unit.commands.report.test_find import two_devices

EXAMPLES = sorted(path.name for path in (ROOT / "tests/data").glob("*.pkl.gz"))
LINES, COLUMNS = 45, 80


def of(name: str, **options: Any) -> Overview:
    return overview(mr.open(ROOT / "tests/data" / name), fold=True, **options)


def text(report: Overview, width: int = COLUMNS) -> str:
    return render_plain(report_document(report), width=width)


def changed(name: str, **changes: Any) -> Overview:
    report = of(name)
    return replace(report, devices=(replace(report.devices[0], **changes),))


@pytest.mark.parametrize("name", EXAMPLES)
def test_report_fits_one_screen(name: str) -> None:
    lines = text(of(name)).splitlines()
    assert len(lines) <= LINES
    # Commands aren't wrapped, so that they can be copied.
    assert all(len(line) <= COLUMNS for line in lines if not line.startswith("memreplay "))


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("width", [40, 60, 160])
def test_lines_fit_any_width(name: str, width: int) -> None:
    lines = text(of(name), width).splitlines()
    assert all(len(line) <= width for line in lines if not line.startswith("memreplay "))


def test_leak_is_shown_with_advice() -> None:
    page = text(of("leaky_training.pkl.gz"))
    assert "device 0: peak 24.1 MiB, no request failed, exact" in page
    assert "1 stack keeps 64.0 KiB more a step, over 40 steps (odds >1,000:1)" in page
    assert "step 29 of 40" in page
    assert "train.py:54 keeps 64.0 KiB more each step, over 40 steps" in page
    assert page.index("what to do next\n") < page.index("leak  train.py:54")
    assert "activations kept" not in page  # they belong to an evaluation
    assert f"memreplay leaks {ROOT / 'tests/data/leaky_training.pkl.gz'}" in page


def test_leak_that_has_filled_the_card() -> None:
    found = of("leaky_training.pkl.gz", total_memory=1 << 30)
    (device,) = found.devices
    leaks = device.leaks
    assert leaks is not None
    assert leaks.runs_out is not None
    assert "; fills 1.0 GiB after " in " ".join(text(found).split())
    full = replace(leaks, runs_out=replace(leaks.runs_out, step_count=0))
    now = replace(found, devices=(replace(device, leaks=full),))
    assert "; fills 1.0 GiB already" in " ".join(text(now).split())


def test_overlapping_savings_are_not_to_be_added() -> None:
    overlap = "what to do next (savings overlap, so they don't add up)"
    found = of("transformer_step.pkl.gz")
    assert text(found).count(overlap) == 1
    (device,) = found.devices
    assert sum(one.saved_bytes > 0 for one in device.advice) > 1
    first = replace(found, devices=(replace(device, advice=device.advice[:1]),))
    assert "what to do next\n" in text(first)


def test_possible_leak_has_its_probability() -> None:
    (device,) = of("leaky_training.pkl.gz").devices
    assert device.leaks is not None
    first, *rest = device.leaks.once
    leaks = replace(
        device.leaks,
        leaks=(),
        leaks_total=0,
        whole_bytes_per_step=0,
        once=(*rest, replace(first, odds=2.5)),
    )
    page = " ".join(text(changed("leaky_training.pkl.gz", leaks=leaks)).split())
    assert "leaks none certain over 40 steps;" in page
    assert "/home/ana/tiny/model.py:23 may leak (odds 2:1)" in page


def test_out_of_memory_is_shown_with_the_first_failure() -> None:
    page = " ".join(text(of("serving_oom.pkl.gz", total_memory=1 << 30)).split())
    assert "memory ran out" in page
    assert "2 requests failed, the first of 192.0 MiB by model.py:52 at event 3,754" in page
    assert "786.0 MiB at most, 88.2% of the 890.9 MiB that a program can use on" in page
    assert "expandable_segments:True" not in page  # this setting wouldn't have been enough
    page = " ".join(text(of("serving_oom.pkl.gz")).split())
    assert "92.7% of a card of at least 848.0 MiB" in page
    assert "during" not in page  # the recording is a single step, which isn't worth naming


@pytest.mark.parametrize("name", EXAMPLES)
def test_categories_add_up_to_the_peak(name: str) -> None:
    (device,) = of(name).devices
    assert device.caught is not None
    found = device.caught
    caught = sum(one.bytes for one in found.rules)
    assert caught + found.unknown_bytes == device.peak.peak_bytes


def test_categories_match_peak() -> None:
    """A rule matches carried-over memory, so no likely category is guessed."""
    (device,) = of("transformer_step.pkl.gz").devices
    assert [(one.category.partition(": ")[0], one.bytes) for one in device.peak.categories][1:] == [
        ("optimizer state (likely)", 883_347_456),
        ("parameters (likely)", 441_673_728),
        ("before the recording", 32_768),
        ("unknown", 32_768),
    ]
    page = " ".join(text(of("transformer_step.pkl.gz")).split())
    assert "421.2 MiB parameters (likely) (8.0%), 32.0 KiB unknown (<0.1%)" in page


def test_doubts_come_first() -> None:
    reasons = ("unmatched_frees", "ring_overflow", "segments_disagree")
    (device,) = of("transformer_step.pkl.gz").devices
    against = {"trusted": False, "reasons": reasons}
    doubted = replace(device.peak, exactness="estimated", **against)
    page = " ".join(text(changed("transformer_step.pkl.gz", peak=doubted, **against)).split())
    assert "no request failed in the last 10,000 events, not trustworthy trust" in page
    assert "trust Not trustworthy: blocks were freed that were not live" in page
    assert "the recorder's ring buffer was full" in page
    assert "and 1 more reason (summary lists them)" in page
    # Doubts about other measures don't affect the peak.
    page = " ".join(
        text(changed("transformer_step.pkl.gz", trusted=False, reasons=reasons[:1])).split()
    )
    assert "no request failed, requested exact, other measures not trustworthy trust" in page
    assert (
        "trust Requested bytes are exact. Other measures are not trustworthy: blocks were freed"
        " that were not live"
    ) in page
    others = changed(
        "transformer_step.pkl.gz",
        trusted=False,
        reasons=reasons[:1],
        reserved_exactness="estimated",
    )
    assert "(not trustworthy) at most" in text(others)
    assert "(estimated) at most" in text(
        changed("transformer_step.pkl.gz", reserved_exactness="estimated")
    )


def test_full_ring_buffer_comes_first() -> None:
    (device,) = of("transformer_step.pkl.gz").devices
    for reason, how in (
        ("ring_overflow", "was full"),
        ("ring_overflow_likely", "was probably full"),
    ):
        against = {"trusted": False, "reasons": (reason,)}
        peak = replace(device.peak, **against)
        page = " ".join(text(changed("transformer_step.pkl.gz", peak=peak, **against)).split())
        assert "no request failed in the last 10,000 events, exact for the last 10,000" in page
        assert f"trust Exact for the last 10,000 events only: the ring buffer {how}, so" in page


def test_estimate_is_marked() -> None:
    (device,) = of("transformer_step.pkl.gz").devices
    estimated = replace(device.peak, exactness="estimated")
    page = text(changed("transformer_step.pkl.gz", exactness="estimated", peak=estimated))
    assert "no request failed, estimated" in page
    assert "trust          Estimated: the snapshot is consistent" in page
    page = text(changed("transformer_step.pkl.gz", reserved_exactness="estimated"))
    assert "5.6 GiB (estimated) at most" in page


def test_missing_sections_explain_why() -> None:
    parts = ("categories", "fragmentation", "steps", "leaks", "oom")
    missing = {part: f"no {part} here" for part in parts}
    page = text(
        changed(
            "leaky_training.pkl.gz",
            caught=None,
            fragmentation=None,
            unused=None,
            steps=None,
            step=None,
            leaks=None,
            oom=None,
            missing_parts=missing,
        )
    )
    for part in ("categories", "fragmentation", "leaks", "oom"):
        assert f"no {part} here" in page


def test_usage_above_reserved_memory_has_no_share() -> None:
    (device,) = of("transformer_step.pkl.gz").devices
    assert device.unused is not None
    wrong = replace(device.unused, unused_bytes=0, active_bytes=device.unused.reserved_bytes + 5)
    assert "more was active than reserved" in " ".join(
        text(changed("transformer_step.pkl.gz", unused=wrong)).split()
    )


def test_final_state_is_shown_without_events() -> None:
    made = SnapshotBuilder(devices=0)
    made.segment(0x1000, 512, blocks=[made.block(0x1000, 512)])
    page = text(overview(mr.open(build.dump(made.build()))))
    assert "device 0: 512 B held at the end, no events were recorded" in page
    assert "not known: no events were recorded" in page
    assert "512 B requested in 1 block at the end" in page
    assert "512 B at the end; card size unknown" in page
    assert " at most" not in page


def test_snapshot_event_is_not_an_allocation() -> None:
    """The dump itself records an event."""
    made = SnapshotBuilder()
    made.snapshot_event(512)
    made.segment(0x1000, 1024, blocks=[made.block(0x1000, 512)])
    page = text(overview(mr.open(build.dump(made.build()))))
    assert "device 0: 512 B held at the end, no allocation was recorded" in page
    assert "1.0 KiB at the end; card size unknown" in page
    assert "512 B (50.0%) of 1.0 KiB reserved, at the end" in page
    assert " at most" not in page
    # `oom` and `timeline` would have nothing to show.
    assert "memreplay peak FILE" in page
    assert "# what held memory at the end" in page
    assert "memreplay oom" not in page
    assert "memreplay timeline" not in page


def test_profiler_trace_may_lack_reserved_memory() -> None:
    trace = Kineto().memory(1, 512, 512, 512).memory(2, 1024, 512, 1024)
    page = text(overview(mr.open(trace.json())))
    assert "reserved       not in the trace" in page
    assert "0 B" not in page


def test_cache_in_a_final_state_gets_no_advice() -> None:
    made = SnapshotBuilder(devices=0)
    made.segment(1 << 30, 1 << 30, blocks=[made.block(1 << 30, 512)])
    page = text(overview(mr.open(build.dump(made.build()))))
    assert "1.0 GiB (100.0%) of 1.0 GiB reserved, at the end" in " ".join(page.split())
    assert "expandable_segments" not in page


@pytest.mark.parametrize("ended", [True, False])
def test_end_at_the_peak_is_usual_after_an_optimizer_step(ended: bool) -> None:
    """A request can't have failed within a step that ended."""
    made = SnapshotBuilder()
    name = "Optimizer.step#AdamW.step"
    for i in range(4):
        made.alloc(0x1000 + 512 * i, 512, time_us=1_700_000_000_000_000 + 10 * i)
    made.annotation(name, "START", 1_700_000_000_000_005)
    if ended:
        made.annotation(name, "END", 1_700_000_000_000_035)
    page = " ".join(text(overview(mr.open(build.dump(made.finish_segments().build())))).split())
    assert ("may have failed right after" in page) != ended
    assert ("in 4 events. Ended at 100.0% of the peak" in page) == ended


def test_end_at_the_peak_may_be_out_of_memory() -> None:
    made = SnapshotBuilder().alloc(0x1000, 512).alloc(0x2000, 512).finish_segments()
    page = " ".join(text(overview(mr.open(build.dump(made.build())))).split())
    assert (
        "No request failed in 2 events, but they end at 100.0% of the peak: a request may have"
        " failed right after" in page
    )
    made = SnapshotBuilder().segment_alloc(0x1000, 512)
    made.segment(0x1000, 512, blocks=[made.block(0x1000, 512)])
    page = text(overview(mr.open(build.dump(made.build()))))
    assert "out of memory  not known: no allocation was recorded" in page


def test_holders_that_differ_only_in_callers_show_the_difference() -> None:
    made = SnapshotBuilder()
    for n, outer in enumerate((7, 7, 8, 9)):
        frames = [("forward", "model.py", line) for line in (1, 2, 3, outer)]
        made.alloc(0x1000 * (n + 1), 512, frames=[*frames, ("main", "run.py", 20 + n // 2)])
    made.alloc(0x9000, 64, frames=[("load", "data.py", 1), ("main", "data.py", 2)])
    report = overview(mr.open(build.dump(made.finish_segments().build())))
    (table,) = (block for block in report_document(report) if isinstance(block, Table))
    assert len({(row.cells[-1], row.below) for row in table.rows}) == len(table.rows) > 2
    assert len(table.rows[-1].below) == 1


def test_report_says_that_the_snapshot_is_empty() -> None:
    page = text(overview(mr.open(build.dump({"segments": [], "device_traces": []}))))
    assert "nothing to report: the file has neither events nor segments" in page


def test_every_other_device_has_a_line() -> None:
    page = text(overview(mr.open(build.dump(two_devices().build()))))
    assert "device 1: peak 9.0 MiB" in page
    assert "2 other devices" in page
    rows = page[page.index("2 other devices") :].splitlines()[3:]
    assert [row.split()[:4] for row in rows] == [
        ["0", "3.0", "MiB", "3.0"],
        ["2", "1.0", "MiB", "1.0"],
    ]


def test_worst_of_very_many_devices_have_a_line() -> None:
    made = SnapshotBuilder(devices=40)
    for device in range(40):
        made.alloc(0x1000, 512 * (device + 1), device)
    page = text(overview(mr.open(build.dump(made.finish_segments().build()))))
    assert "device 39: peak 20.0 KiB" in page
    assert "39 other devices" in page
    assert "24 more (--device N shows one, --format json all)" in page
    assert len(page.splitlines()) <= LINES


def test_commands_can_be_copied() -> None:
    (device,) = of("transformer_step.pkl.gz").devices
    one = replace(device, advice=(Advice("x", command="sql --at 7"), *device.advice))
    first, second = next_commands(one, "<stdin>")
    assert first.command == "memreplay peak FILE --by module"
    assert second.command == "memreplay peak FILE"
    first, _ = next_commands(one, "my snap.pkl")
    assert first.command == "memreplay peak 'my snap.pkl' --by module"


@pytest.mark.parametrize("name", EXAMPLES)
def test_report_ends_with_two_commands_and_their_purpose(name: str) -> None:
    report = of(name)
    page = text(report).partition("\n\n1 other device")[0].splitlines()
    device = report.devices[0]
    assert len(device.commands) == len(device.command_reasons) == 2
    wanted = []
    for command, reason in zip(device.commands, device.command_reasons, strict=True):
        wanted += [f"# {reason}", command]
    assert page[-4:] == wanted


@pytest.mark.parametrize("name", EXAMPLES)
def test_report_has_at_most_three_recommendations(name: str) -> None:
    (device, *_) = of(name).devices
    titles = {advice_title(one) for one in device.advice}
    page = text(of(name)).partition("what to do next")[2].partition("\n")[2].partition("\n\n")[0]
    rows = [line for line in page.splitlines() if line.split("  ")[0] in titles]
    assert len(rows) == min(3, len(device.advice))


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("width", [80, 160])
def test_holders_match_peak_and_are_distinguishable(name: str, width: int) -> None:
    snap = mr.open(ROOT / "tests/data" / name)
    report = overview(snap, fold=True)
    peak = peak_report(snap, top=5, fold=True)
    assert tuple(one.peak for one in report.devices) == peak.devices
    lines = text(report, width).splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:2] == ["bytes", "share"])
    rows: list[list[str]] = []
    where = lines[at].index("allocated at")
    for line in lines[at + 1 : lines.index("", at)]:
        if line[:where].strip():
            rows.append([])
        rows[-1].append(line[where:])
    assert len({tuple(row) for row in rows}) == len(rows)


def test_report_fits_in_one_line() -> None:
    leaking = "leaks: 1 stack keeps 64.0 KiB more a step, over 40 steps (odds >1,000:1)"
    line = report_line(of("leaky_training.pkl.gz"))
    assert line.startswith("device 0: peak ")
    assert line.endswith(f", no request failed, {leaking}")
    line = report_line(of("serving_oom.pkl.gz"))
    assert "memory ran out" in line
    assert "the peak" not in line
    assert "leaks: not judged" in report_line(of("transformer_step.pkl.gz"))
    (device,) = of("leaky_training.pkl.gz").devices
    assert device.leaks is not None
    none = replace(device.leaks, leaks=(), leaks_total=0, whole_bytes_per_step=0)
    windows = replace(none, step_source=StepSource("windows", "", 0.0))
    made = changed("leaky_training.pkl.gz", leaks=windows)
    assert report_line(made).endswith("leaks: not judged")  # windows can't rule out a leak
    assert "leaks          no stack grows throughout, over 40 windows" in text(made)
    peak = replace(device.peak, trusted=False, reasons=("unmatched_frees",))
    line = report_line(changed("leaky_training.pkl.gz", leaks=none, trusted=False, peak=peak))
    assert line.endswith("no request failed, leaks: none found, not trustworthy")
    whole = replace(none, whole_bytes_per_step=4096)
    line = report_line(changed("leaky_training.pkl.gz", leaks=whole))
    assert "leaks: memory grows by 4.0 KiB a step over 40 steps" in line
    unjudged = changed("leaky_training.pkl.gz", leaks=None)
    assert report_line(unjudged).endswith("leaks: not judged")
    empty = overview(mr.open(build.dump({"segments": [], "device_traces": []})))
    assert report_line(empty) == "neither events nor segments"


def test_line_names_other_affected_devices() -> None:
    report = overview(mr.open(build.dump(two_devices().build())))
    line = report_line(report)
    assert line.startswith("device 1: peak 9.0 MiB, no request failed, ends at 100.0% of the peak")
    assert line.endswith("; 2 other devices")
    worst, second, third = report.devices
    both = replace(report, devices=(worst, replace(second, ran_out=True), third))
    assert "; 2 other devices; device 0: peak 3.0 MiB, memory ran out, leaks: " in report_line(both)
    (device,) = of("leaky_training.pkl.gz").devices
    both = replace(report, devices=(worst, second, device))
    assert "; 2 other devices; device 0: peak " in report_line(both)
    assert "leaks: 1 stack keeps 64.0 KiB more a step" in report_line(both)


def test_words_that_need_an_explanation_have_one() -> None:
    (one,) = overview(mr.open(ROOT / "examples/serving_oom.pkl.gz")).devices
    page = " ".join(text(Overview(file="a.pkl", devices=(one,))).split())
    assert "no stack grows throughout, over 19 windows (equal parts of the events)" in page
    assert one.caught is not None
    rule = replace(one.caught.rules[0], category="autograd detail", bytes=1 << 30)
    caught = replace(one.caught, rules=(rule, *one.caught.rules[1:]))
    changed = replace(one, caught=caught)
    page = " ".join(text(Overview(file="a.pkl", devices=(changed,))).split())
    assert "; autograd detail: temporaries of the backward pass" in page


def test_suggested_commands_read_the_same_part_of_the_file(tmp_path: Path) -> None:
    """Each command that a report suggests runs, and shows the report's peak."""
    made = record(3, settings="crowded", steps=200)
    data = build.dump(made.snapshot)
    (tmp_path / "whole.pkl").write_bytes(data)
    (tmp_path / "cut.pkl").write_bytes(data[: len(data) * 6 // 10])
    for name, options in (
        ("whole.pkl", []),
        ("whole.pkl", ["--from", "40", "--to", "90"]),
        ("whole.pkl", ["--to", "60"]),
        ("cut.pkl", ["--salvage"]),
        ("cut.pkl", ["--salvage", "--from", "20", "--to", "60"]),
    ):
        path = str(tmp_path / name)
        told = command_runner().invoke(app, ["report", path, *options, "--json"])
        assert told.exit_code == 0, told.output
        (device,) = json.loads(told.stdout)["devices"]
        for command in device["commands"]:
            _, *words = shlex.split(command)
            done = command_runner().invoke(app, words)
            assert done.exit_code == 0, (command, done.output)
            peak = command_runner().invoke(app, ["peak", *words[1:2], *options, "--json"])
            (shown,) = json.loads(peak.stdout)["devices"]
            assert shown["peak_bytes"] == device["peak_bytes"]
            assert words[-len(options) :] == options or not options


def test_file_that_is_cut_off_does_not_show_how_the_program_ended() -> None:
    builder = SnapshotBuilder()
    for i in range(40):
        builder.alloc((i + 1) << 20, MIB, frames=[("f", "/w/a.py", 1)])
    data = build.dump(builder.finish_segments().build())
    report = overview(mr.open(data[: len(data) * 9 // 10], salvage=True))
    page = " ".join(text(report).split())
    assert "but the file is cut off: a later request may have failed" in page
    assert "end at 100.0%" not in page
    assert not any(one.startswith("memreplay oom") for one in report.devices[0].commands)


@pytest.mark.parametrize("width", [60, 80])
def test_table_of_other_devices_fits_the_width(width: int) -> None:
    """Its column for trust says only what's trustworthy."""
    made = SnapshotBuilder(devices=2)
    for device in range(2):
        made.alloc(1 << 30, 80 * MIB, device).free(1 << 30, 80 * MIB, device)
        made.segment(1 << 20, 2 * MIB, device, blocks=[made.block(1 << 20, 512, 300)])
    page = text(overview(mr.open(build.dump(made.build()))), width)
    lines = page.splitlines()
    assert all(len(line) <= width for line in lines if not line.startswith("memreplay "))
    _, table = page.split("1 other device")
    assert "requested exact" in table
    assert "other measures" not in table
