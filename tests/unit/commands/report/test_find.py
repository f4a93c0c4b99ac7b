"""Tests of commands/report/find.py: each section matches its own command, from a single replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.trust.trust import device_verdict
from memreplay.commands.fragmentation.find import fragmentation_report
from memreplay.commands.leaks.find import leaks_report
from memreplay.commands.oom.find import oom_report
from memreplay.commands.peak.find import peak_report
from memreplay.commands.report.find import HOLDERS, OTHERS, overview
from memreplay.commands.report.result import DeviceOverview, Overview
from memreplay.commands.steps.find import steps_report
from memreplay.errors import MemreplayError, UsageError
from tests import build
from tests.build import SnapshotBuilder
from tests.conftest import ROOT, SNAPSHOTS
from tests.unit.commands.oom.test_find import fail, machine

MIB, GIB = 1 << 20, 1 << 30
STEP = [("forward", "/home/ana/model.py", 7), ("step", "/home/ana/train.py", 3)]


def of_each(report: Any) -> dict[int, Any]:
    """Return the report on each device."""
    return {one.device: one for one in report.devices}


def assert_equals_the_commands(path: Path) -> Overview:
    """Check that each section equals its command's result for the same file, opened again."""
    found = overview(mr.open(path))

    def alone() -> mr.Snapshot:
        return mr.open(path)

    commands: dict[str, Callable[[], Any]] = {
        "peak": lambda: peak_report(alone(), top=HOLDERS),
        "fragmentation": lambda: fragmentation_report(alone(), top=OTHERS),
        "steps": lambda: steps_report(alone()),
        "leaks": lambda: leaks_report(alone(), top=OTHERS),
        "oom": lambda: oom_report(alone(), most=1, top=HOLDERS),
    }
    for name, command in commands.items():
        want: dict[int, Any] = {}
        error = ""
        try:
            want = of_each(command())
        except MemreplayError as raised:
            error = str(raised)
        for one in found.devices:
            assert getattr(one, name) == want.get(one.device)
            assert one.device in want or one.missing_parts[name].partition(" (")[0] in error
    peaks = of_each(peak_report(alone(), top=OTHERS, caught=True))
    assert {one.device: one.caught for one in found.devices} == {
        device: one.caught for device, one in peaks.items()
    }
    snap = alone()
    assert sorted(one.device for one in found.devices) == list(snap.devices)
    for one in found.devices:
        replay = snap.replay(one.device)
        whole = device_verdict(snap, replay)
        assert (one.trusted, one.reasons) == (whole.trusted, whole.reasons)
        reserved = replay.measure("reserved").peak
        assert one.reserved_peak_bytes == reserved.bytes
        assert one.reserved_peak_event == reserved.event_index
        assert one.peak_bytes == one.peak.peak_bytes
        assert one.open_annotations == one.peak.annotations
        assert_holds_together(snap, one)
    return found


def assert_holds_together(snap: mr.Snapshot, one: DeviceOverview) -> None:
    """Check the numbers that only the report has, by brute force."""
    event = one.peak.peak_event
    replay = snap.replay(one.device)
    open_then = [
        span.name
        for span in spans(snap, replay)
        if event in range(span.start_event + 1, (span.end_event or replay.events) + 1)
    ]
    assert list(one.peak.annotations) == open_then
    if one.step is not None:
        assert one.steps is not None
        inside = one.steps.steps[one.step.number - 1]
        assert (inside.number, inside.name) == (one.step.number, one.step.name)
        assert event in range(inside.first_event, inside.last_event + 1)
        if one.peak.step is not None:
            step = one.peak.step
            assert (step.number, step.of, step.inside) == (
                one.step.number,
                len(one.steps.steps),
                True,
            )
    if one.fragmentation is not None:
        assert one.unused is not None
        reserved, active = replay.measure("reserved"), replay.measure("active")
        assert one.unused.event_index == reserved.peak.event_index
        assert one.unused.reserved_bytes == reserved.peak.bytes
        assert one.unused.active_bytes == active.peak.bytes
        unused = max(0, reserved.peak.bytes - active.peak.bytes)
        assert one.unused.unused_bytes == one.fragmentation.unused_bytes == unused


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_examples_match_their_commands(path: Path) -> None:
    assert_equals_the_commands(path)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_holders_and_advice_match_peak(path: Path) -> None:
    folded = overview(mr.open(path), fold=True)
    peak = of_each(peak_report(mr.open(path), top=HOLDERS, fold=True))
    assert {one.device: one.peak for one in folded.devices} == peak
    whole = overview(mr.open(path))
    assert [one.advice for one in folded.devices] == [one.advice for one in whole.devices]


def test_advice_merges_indistinguishable_rows() -> None:
    """Stacks that differ only in plumbing outnumber the rows. JSON merges them, too."""
    made = SnapshotBuilder()
    for k in range(4 * HOLDERS):
        plumbing = (f"helper_{k}", "/v/lib/python3.12/site-packages/torch/nn/functional.py", k)
        stack = [plumbing, ("softmax", "/home/ana/model.py", 7), STEP[1]]
        made.alloc(0x100000 * (k + 1), MIB, frames=stack)
    snapshot = build.dump(made.build())
    for fold in (False, True):
        (device,) = overview(mr.open(snapshot), fold=fold).devices
        assert len(device.peak.groups) == (1 if fold else HOLDERS)
        (found,) = (one for one in device.advice if one.name == "attention_scores")
        assert found.bytes == 4 * HOLDERS * MIB


def test_step_and_annotation_of_the_peak_are_named() -> None:
    (one,) = overview(mr.open(ROOT / "tests/data" / "leaky_training.pkl.gz")).devices
    assert one.step is not None
    assert one.steps is not None
    assert one.steps.steps[one.step.number - 1].peak_bytes == one.peak_bytes
    assert one.peak.annotations[0] == one.step.name
    assert one.category == "backward"


def test_category_comes_from_the_stack_at_the_peak() -> None:
    made = SnapshotBuilder()
    made.alloc(0x1000, MIB, frames=[("f", "/venv/torch/optim/adam.py", 1)])
    made.alloc(0x200000, 2 * MIB, frames=STEP).free(0x200000, 2 * MIB)
    (one,) = overview(mr.open(build.dump(made.finish_segments().build()))).devices
    assert one.peak.peak_event == 1
    assert one.category == "activations"
    (whole,) = overview(mr.open(build.dump(made.build())), rules=()).devices
    assert whole.category == "unknown"


def two_devices() -> SnapshotBuilder:
    made = SnapshotBuilder(devices=3)
    for device, size in ((0, 3 * MIB), (1, 9 * MIB), (2, MIB)):
        made.segment_alloc(0x10000000 * (device + 1), size, device)
        made.alloc(0x10000000 * (device + 1), size, device, frames=STEP)
    return made.finish_segments()


def test_highest_device_comes_first() -> None:
    found = overview(mr.open(build.dump(two_devices().build())))
    assert [one.device for one in found.devices] == [1, 0, 2]


def test_device_that_ran_out_of_memory_comes_first() -> None:
    made = two_devices().oom(MIB, device=2, device_free=0)
    found = overview(mr.open(build.dump(made.build())))
    assert [one.device for one in found.devices] == [2, 1, 0]
    assert [one.ran_out for one in found.devices] == [True, False, False]


def test_sections_explain_missing_events() -> None:
    made = SnapshotBuilder(devices=0)
    made.segment(0x10000000, MIB, blocks=[made.block(0x10000000, MIB)])
    (one,) = overview(mr.open(build.dump(made.build()))).devices
    assert one.missing_parts["steps"] == "no events were recorded"
    assert one.missing_parts["leaks"] == "no events were recorded"
    assert one.peak.peak_bytes == MIB
    assert [advice.name for advice in one.advice] == ["record"]


def test_reasons_are_brief() -> None:
    made = SnapshotBuilder()
    for place in range(1, 6):
        made.alloc(0x1000 * place, 64)
    snap = mr.open(build.dump(made.build()))
    (one,) = overview(snap).devices
    (leaks,) = leaks_report(snap).devices
    assert one.missing_parts == {
        "fragmentation": "reserved memory isn't known: the file has neither segments nor segment"
        " events",
        "leaks": "no steps were found",
    }
    why = leaks.not_judged_reason or ""
    assert why.startswith("no steps were found, and the recording may be a single step; record 5")


def test_empty_snapshot_has_no_devices() -> None:
    found = overview(mr.open(build.dump({"segments": [], "device_traces": [[]]})))
    assert found.devices == ()


@pytest.mark.parametrize("given", [2 * GIB, None])
def test_card_size_is_the_given_one_or_else_the_highest_usage(given: int | None) -> None:
    made, device = machine(200 * MIB)
    fail(device, 300 * MIB)
    (one,) = overview(mr.open(build.dump(made.dump()[0])), total_memory=given).devices
    assert one.ran_out
    assert (one.total_memory_bytes, one.total_memory_known) == (
        (given, True) if given else (200 * MIB, False)
    )


def test_card_smaller_than_the_usage_is_an_error() -> None:
    made, device = machine(200 * MIB)
    fail(device, 300 * MIB)
    with pytest.raises(UsageError, match="total_memory is below"):
        overview(mr.open(build.dump(made.dump()[0])), total_memory=100 * MIB)


def test_idle_cache_at_the_start_does_not_count_as_unused() -> None:
    made = SnapshotBuilder()
    made.alloc(0x10000000, 90 * MIB, frames=STEP).free(0x10000000, 90 * MIB)
    free = made.block(0x10000000, 100 * MIB, state="inactive")
    made.segment(0x10000000, 100 * MIB, blocks=[free])
    (one,) = overview(mr.open(build.dump(made.build()))).devices
    assert one.unused is not None
    assert one.unused.reserved_bytes == 100 * MIB
    assert one.unused.unused_bytes == 10 * MIB
