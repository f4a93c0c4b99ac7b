"""Tests of commands/steps/find.py."""

from __future__ import annotations

import pytest

import leaky
import memreplay as mr
from memreplay.analysis.steps.summing import median
from memreplay.commands.steps.find import deviation, steps_report
from memreplay.commands.steps.result import DeviceSteps
from memreplay.errors import NothingToTellError, UsageError
from tests import build
from tests.build import START_US, SnapshotBuilder

KIB = 1 << 10
A = 0x10000000


def builder(works: list[int], keeps: list[int] | None = None) -> SnapshotBuilder:
    """Build one step for each element of `works`. A step uses and frees that many bytes, and keeps
    `keeps` bytes.
    """
    made = SnapshotBuilder()
    made.alloc(A - 4096, KIB)
    now = START_US + 100
    for k, work in enumerate(works):
        made.annotation(f"ProfilerStep#{k}", "START", now + 1)
        if keeps and keeps[k]:
            made.alloc(A + (k + 1) * 1024 * KIB, keeps[k], time_us=now + 10)
        made.alloc(A, work, time_us=now + 20).free(A, work, time_us=now + 30)
        now += 100
        made.annotation(f"ProfilerStep#{k}", "END", now)
    made.free(A - 4096, KIB, time_us=now + 50)
    return made


def device_of(made: SnapshotBuilder, **options: object) -> DeviceSteps:
    report = steps_report(mr.open(build.dump(made.build())), **options)
    (device,) = report.devices
    return device


def test_numbers_match_those_worked_out_by_hand() -> None:
    device = device_of(builder([8 * KIB, 4 * KIB], [KIB, 0]))
    first, second = device.steps
    assert (first.number, first.name) == (1, "ProfilerStep#0")
    assert (first.first_event, first.last_event) == (1, 4)
    assert (first.start_us, first.duration_us) == (START_US + 101, 99)
    assert (first.peak_bytes, first.peak_event) == (10 * KIB, 2)
    assert (first.end_bytes, first.growth_bytes) == (2 * KIB, KIB)
    assert (first.allocation_count, first.allocated_bytes) == (2, 9 * KIB)
    assert (second.first_event, second.peak_bytes, second.growth_bytes) == (5, 6 * KIB, 0)
    assert device.before is not None
    assert device.after is not None
    assert device.between is not None
    assert (device.before.events, device.before.allocated_bytes) == (1, KIB)
    assert (device.after.events, device.after.allocation_count) == (2, 0)
    assert (device.between.events, device.between.peak_event) == (0, -1)
    assert (device.exactness, device.trusted) == ("estimated", False)  # without segments
    assert (device.start_bytes, device.end_bytes) == (0, KIB)


def test_range_keeps_event_numbers() -> None:
    snap = mr.open(build.dump(builder([8 * KIB] * 5).build()), start=4)
    (device,) = steps_report(snap).devices
    assert device.first_event == 4
    # The step at the start of the range may be incomplete.
    assert (device.steps[0].name, device.steps[0].first_event) == ("ProfilerStep#2", 7)
    assert device.steps[0].peak_event == 7
    assert device.steps[0].growth_bytes == 0


@pytest.mark.parametrize("measure", ["held", "active", "allocated", "reserved"])
def test_steps_have_the_peaks_of_other_measures(measure: str) -> None:
    snap = mr.open(leaky.snapshot_bytes(leaky.Options(steps=8)))
    (device,) = steps_report(snap, measure=measure).devices
    usage = snap.replay().measure(measure)  # type: ignore[arg-type]
    for step in device.steps:
        high = usage.highest(step.first_event - 1, step.last_event)
        assert (step.peak_bytes, step.peak_event) == (high.bytes, high.event_index)
        assert step.end_bytes == usage.bytes_at(step.last_event)


def test_odd_steps_are_found() -> None:
    works = [8 * KIB] * 10
    works[6] = 12 * KIB
    device = device_of(builder(works))
    assert device.steady is not None
    assert (device.steady.first, device.steady.last) == (1, 10)
    assert (device.steady.peak_bytes, device.steady.allocated_bytes) == (9 * KIB, 8 * KIB)
    assert device.steady.duration_us == 99
    assert [(one.number, one.quantity) for one in device.odd] == [
        (7, "allocated_bytes"),
        (7, "peak_bytes"),
    ]
    assert (device.odd[0].value, device.odd[0].median) == (12 * KIB, 8 * KIB)


def test_steps_that_vary_are_not_odd() -> None:
    assert device_of(builder([8 * KIB, 9 * KIB, 12 * KIB, 10 * KIB, 11 * KIB, 8 * KIB])).odd == ()
    # A step also isn't odd if it differs little, or if there are only a few steps.
    assert device_of(builder([800 * KIB] * 9 + [810 * KIB])).odd == ()
    assert device_of(builder([8 * KIB] * 3 + [80 * KIB])).odd == ()


def test_warm_up_ends_once_growth_stops() -> None:
    works = [8 * KIB] * 12
    assert device_of(builder(works, [40 * KIB, *[0] * 11])).warm_up_steps == 1
    assert device_of(builder(works, [40 * KIB, 0, 5 * KIB, *[0] * 9])).warm_up_steps == 3
    assert device_of(builder(works)).warm_up_steps == 0
    assert device_of(builder(works, [KIB] * 12)).warm_up_steps == 0  # memory grows in every step
    assert device_of(builder(works, [*[0] * 8, 40 * KIB, *[0] * 3])).warm_up_steps == 0  # too late
    works = [8 * KIB] * 60
    rises = {0: 40 * KIB, 8: 5 * KIB, 19: 40 * KIB}  # ten steps without growth end the warm-up
    assert device_of(builder(works, [rises.get(k, 0) for k in range(60)])).warm_up_steps == 9
    rises[18] = rises.pop(19)  # nine don't
    assert device_of(builder(works, [rises.get(k, 0) for k in range(60)])).warm_up_steps == 19


def test_statistics_match_those_worked_out_by_hand() -> None:
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2
    assert deviation([1, 1, 1, 1], 1) == 0
    assert deviation([0, 10], 5) == pytest.approx(1.4826 * 5)
    assert deviation([5, 5, 5, 5, 25], 5) == pytest.approx(1.2533 * 4)


def test_error_if_there_are_no_steps() -> None:
    with pytest.raises(UsageError, match="no steps: no events were recorded"):
        device_of(SnapshotBuilder().segment(A, 1 << 21))
    with pytest.raises(UsageError, match="no steps: the file has neither events nor segments"):
        device_of(SnapshotBuilder())
    made = SnapshotBuilder().segment(A, 1 << 21).event("snapshot", 0, 0)
    with pytest.raises(
        NothingToTellError,
        match="no allocation was recorded; call _record_memory_history",
    ) as told:
        device_of(made)
    assert told.value.exit_code == 5
    with pytest.raises(UsageError, match="no annotation 'x'") as wrong:
        device_of(builder([KIB]), annotation="x")
    assert wrong.value.exit_code == 2


def test_single_step_is_shown() -> None:
    device = device_of(builder([KIB]))
    assert device.step_source is not None
    assert (device.step_source.found_by, device.step_source.name) == ("annotation", "ProfilerStep")
    assert [step.name for step in device.steps] == ["ProfilerStep#0"]
    assert device.odd == ()


def test_one_of_two_devices_may_have_no_steps() -> None:
    made = builder([8 * KIB] * 3)
    made.traces.append([])
    made.event("snapshot", 0, KIB, device=1)
    first, second = steps_report(mr.open(build.dump(made.build()))).devices
    assert len(first.steps) == 3
    assert (second.step_source, second.steps, second.steady, second.odd) == (None, (), None, ())
    assert second.missing.startswith("no allocation was recorded;")
