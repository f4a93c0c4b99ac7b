"""Tests of commands/oom/outlook.py: whether a program went on after a failed request."""

from __future__ import annotations

import re
from typing import Any

import pytest

import memreplay as mr
from memreplay.commands.oom.find import oom_report
from memreplay.commands.oom.text import oom_document
from memreplay.commands.report.find import overview
from memreplay.commands.report.text import report_document
from memreplay.render.plain import render_plain
from memreplay.snapshot.model import When
from tests import build
from tests.allocator_blocks import MIB
from tests.allocator_strategies import record
from tests.build import Snapshot
from tests.unit.commands.oom.test_find import KEEP, fail, machine

SETTINGS = ("crowded", "max split, crowded", "expandable, crowded")
WENT_ON = re.compile(r"the program caught the error and went on: (\S+) allocations? in (\S+) more")
STOPPED = "nothing more was allocated, so the program's next requests aren't known"


def words(document: Any) -> str:
    return " ".join(render_plain(document, width=1000).split())


def after(trace: list[dict[str, Any]], event: int) -> tuple[int, int]:
    """Count the events after an event, and the allocations among them."""
    later = trace[event + 1 :]
    return len(later), sum(one["action"] == "alloc" for one in later)


def ending(*, frees: int = 0, allocations: int = 0) -> Snapshot:
    """Return a program that fails once, then frees and allocates."""
    made, device = machine(200 * MIB)
    kept = [device.malloc(20 * MIB, 0, KEEP) for _ in range(8)]
    fail(device, 100 * MIB)
    for block in kept[:frees]:
        assert block is not None
        device.free(block)
    for _ in range(allocations):
        assert device.malloc(2 * MIB, 0, KEEP) is not None
    return made.dump()[0]


@pytest.mark.parametrize("frees", [0, 1, 8])
@pytest.mark.parametrize("allocations", [0, 1, 9])
def test_program_that_allocates_after_the_error_went_on(frees: int, allocations: int) -> None:
    """An error that isn't caught frees what the program's functions held, but allocates nothing."""
    snap = mr.open(build.dump(ending(frees=frees, allocations=allocations)))
    report = oom_report(snap)
    ((oom,),) = (device.ooms for device in report.devices)
    assert oom.after_allocations == allocations
    page = words(oom_document(report))
    assert bool(WENT_ON.search(page)) == (allocations > 0)
    assert (STOPPED in page) == (allocations == 0)
    whole = words(report_document(overview(snap)))
    assert ("caught the error and went on" in whole) == (allocations > 0)


@pytest.mark.parametrize("seed", range(60))
def test_events_after_a_failure_are_counted(seed: int) -> None:
    """Random programs catch every error; the last failure may be near the end, or have lost events
    before it, and other devices go on by themselves.
    """
    made = record(
        seed,
        settings=SETTINGS[seed % 3],
        steps=120,
        devices=1 + seed % 2,
        max_entries=80 if seed % 5 == 0 else None,
    )
    snap = mr.open(build.dump(made.snapshot))
    report = oom_report(snap, oom=0)
    for device in report.devices:
        trace = made.snapshot["device_traces"][device.device]
        failed = [i for i, one in enumerate(trace) if one["action"] == "oom"]
        assert [one.event_index for one in device.ooms] == failed
        for oom in device.ooms:
            known = after(trace, oom.event_index)
            assert (oom.after_events, oom.after_allocations) == known
    counts = [
        (oom.after_allocations, oom.after_events)
        for device in report.devices
        for oom in device.ooms
    ]
    shown = WENT_ON.findall(words(oom_document(report)))
    assert [tuple(int(one.replace(",", "")) for one in found) for found in shown] == [
        one for one in counts if one[0]
    ]


def test_range_that_ends_at_the_failure_knows_nothing_after_it() -> None:
    data = build.dump(ending(frees=3, allocations=5))
    ((failed,),) = (device.ooms for device in oom_report(mr.open(data)).devices)
    cut = mr.open(data, stop=When("event", failed.event_index + 1))
    report = oom_report(cut)
    ((oom,),) = (device.ooms for device in report.devices)
    assert (oom.after_events, oom.after_allocations) == (0, 0)
    assert STOPPED in words(oom_document(report))
