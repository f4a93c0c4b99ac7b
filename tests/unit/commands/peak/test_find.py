"""peak: groups, labels, memory without a stack, and sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.groups.ways.base import BEFORE_RECORDING, NO_EVENTS, NO_STACK
from memreplay.analysis.groups.ways.blocks import part_label
from memreplay.analysis.groups.ways.texts import OUTSIDE
from memreplay.commands.peak.find import peak_report
from memreplay.commands.steps.find import steps_report
from memreplay.snapshot.model import MEASURES, By, Frame, MeasureName
from tests import build, oracle
from tests.allocator_strategies import Recording, record, recordings
from tests.allocator_truth import Truth
from tests.build import START_US, SnapshotBuilder
from tests.conftest import SNAPSHOTS
from tests.oracle_ways import Named
from tests.strategies import traces

TORCH = "/v/lib/python3.12/site-packages/torch/nn/functional.py"
USER = ("forward", "model.py", 7)
DEEP = [("torch::unwind::unwind()", "??", 0), ("linear", TORCH, 9), USER, ("main", "t.py", 1)]
GRAD = [
    ("torch::unwind::unwind()", "??", 0),
    ("at::native::mm(at::Tensor)", "LinearAlgebra.cpp", 0),
    ("torch::autograd::generated::MmBackward0::apply()", "??", 0),
    ("start_thread", "??", 0),
]


def snap_of(builder: SnapshotBuilder) -> mr.Snapshot:
    return mr.open(build.dump(builder.build()))


def labels(snap: mr.Snapshot, by: By) -> list[tuple[str, int, int]]:
    (device,) = peak_report(snap, by=by).devices
    return [(g.label, g.bytes, g.count) for g in device.groups]


def mixed() -> mr.Snapshot:
    builder = SnapshotBuilder()
    builder.alloc(1, 100, frames=DEEP).alloc(2, 10, frames=DEEP[1:])
    builder.alloc(3, 40, frames=GRAD).alloc(4, 5)
    return snap_of(builder.finish_segments(extra_live=[(0, 5, 3)]))


def test_groups_by_stack_have_the_expected_rows() -> None:
    assert labels(mixed(), "stack") == [
        ("forward model.py:7", 100, 1),
        ("MmBackward0 (autograd)", 40, 1),
        ("forward model.py:7", 10, 1),
        (NO_STACK, 5, 1),
        (BEFORE_RECORDING, 3, 1),
    ]


def test_whole_stacks_mark_user_frames() -> None:
    (device,) = peak_report(mixed()).devices
    assert device.groups[0].frames == tuple(Frame(*f) for f in DEEP)
    assert device.groups[0].user == (2, 3)
    assert device.groups[1].user == ()
    assert device.groups[3].frames == ()


def test_groups_by_line_have_the_expected_rows() -> None:
    assert labels(mixed(), "line")[:2] == [
        ("forward model.py:7", 110, 2),
        ("MmBackward0 (autograd)", 40, 1),
    ]


def test_groups_by_file_and_by_function_have_the_expected_rows() -> None:
    assert labels(mixed(), "file")[:2] == [("model.py", 110, 2), ("??", 40, 1)]
    assert labels(mixed(), "function")[0] == ("forward", 110, 2)
    (device,) = peak_report(mixed(), by="file").devices
    assert device.groups[0].frames == (Frame("", "model.py", 0),)
    (device,) = peak_report(mixed(), by="function").devices
    assert device.groups[0].frames == (Frame("forward", "", 0),)


def test_carried_over_bytes_are_counted() -> None:
    builder = SnapshotBuilder().free(9, 50).alloc(1, 100).free(1, 100)
    (device,) = peak_report(snap_of(builder.finish_segments(extra_live=[(0, 5, 3)]))).devices
    assert device.carried_over_bytes == 53
    assert device.carried_over_at_peak_bytes == 3
    assert device.peak_bytes == 103
    assert device.end_bytes == 3
    assert device.live_count == 2


def test_top_adds_up_the_rest() -> None:
    (device,) = peak_report(mixed(), top=2).devices
    assert [g.bytes for g in device.groups] == [100, 40]
    assert (device.groups_total, device.rest_bytes, device.rest_count) == (5, 18, 3)


def test_label_says_that_no_events_were_recorded() -> None:
    builder = SnapshotBuilder()
    builder.segment(1, 2**20, blocks=[builder.block(1, 512, 9)])
    assert labels(snap_of(builder), "stack") == [(NO_EVENTS, 9, 1)]


def test_label_says_that_a_block_has_no_stack() -> None:
    builder = SnapshotBuilder()
    plain, named = builder.block(1, 512, 9), builder.block(513, 512, 20)
    named["frames"] = [{"filename": "train.py", "name": "step", "line": 3}]
    builder.segment(1, 2**20, blocks=[plain, named])
    assert labels(snap_of(builder), "stack")[1] == (NO_STACK, 9, 1)


def test_one_or_all_devices_are_reported() -> None:
    snap = snap_of(SnapshotBuilder(devices=3).alloc(1, 1, device=0).alloc(1, 2, device=2))
    assert [d.device for d in peak_report(snap).devices] == [0, 2]
    assert [d.peak_bytes for d in peak_report(snap, device=2).devices] == [2]
    with pytest.raises(mr.UsageError):
        peak_report(snap, device=1)


@given(snapshot=traces())
def test_groups_add_up(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    kinds: tuple[By, ...] = ("stack", "line", "file", "function")
    for by in kinds:
        for top in (0, 2):
            for device in peak_report(snap, by=by, top=top).devices:
                want = oracle.replay(snapshot, device.device)
                shown = sum(g.bytes for g in device.groups)
                assert shown + device.rest_bytes == device.peak_bytes == want.peak_bytes
                count = sum(g.count for g in device.groups) + device.rest_count
                assert count == device.live_count == len(want.live_at(want.event_index))
                assert sum(g.share for g in device.groups) <= 1 + 1e-9


# --- measures, pools and streams match the allocator model ----------------------------------------


def whole(truth: Truth, measure: str, **part: Any) -> list[int]:
    """Return the measure's value at the start and after each event."""
    return [truth.start_of(measure, **part), *truth.series(measure, **part)]


def first_peak(series: list[int]) -> tuple[int, int]:
    return max(series), series.index(max(series)) - 1


@given(recordings(), st.sampled_from(MEASURES))
def test_measures_match_the_allocator(recording: Recording, measure: MeasureName) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    report = peak_report(snap, measure=measure, top=0)
    assert (report.measure, report.by) == (measure, "pool" if measure == "reserved" else "stack")
    for device in report.devices:
        if device.exactness == "estimated":
            continue
        want = whole(recording.truths[device.device], measure)
        assert device.measure == measure
        assert (device.peak_bytes, device.peak_event) == first_peak(want)
        assert (device.carried_over_bytes, device.end_bytes) == (want[0], want[-1])
        assert sum(group.bytes for group in device.groups) == device.peak_bytes


@given(recordings(max_devices=1), st.sampled_from(MEASURES), st.sampled_from(["pool", "stream"]))
def test_parts_match_the_allocator(recording: Recording, measure: MeasureName, by: By) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    for device in peak_report(snap, measure=measure, by=by, top=0).devices:
        if device.exactness == "estimated":
            continue
        truth = recording.truths[0]
        at = device.peak_event + 1
        assert sum(part.bytes for part in device.parts) == device.peak_bytes
        assert sum(part.count for part in device.parts) == device.live_count
        if any(part.pool is None for part in device.parts) and by == "pool":
            # Older files don't record the pools of freed segments.
            assert not any("pool_id" in e for e in recording.snapshot["device_traces"][0])
            continue
        for part in device.parts:
            key = part.pool if by == "pool" else part.stream
            want = whole(truth, measure, **{by: key})
            reserved = whole(truth, "reserved", **{by: key})
            assert (part.start_bytes, part.bytes, part.end_bytes) == (want[0], want[at], want[-1])
            assert (part.peak_bytes, part.peak_event) == first_peak(want)
            assert part.reserved_bytes == reserved[at]
            assert (part.reserved_peak_bytes, part.reserved_peak_event) == first_peak(reserved)
            assert part.reserved_end_bytes == reserved[-1]


@given(recordings(max_devices=1), st.sampled_from(MEASURES[:-1]))
def test_one_pool_or_stream_can_be_selected(recording: Recording, measure: MeasureName) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    for report in (peak_report(snap, measure=measure, by=by) for by in ("pool", "stream")):
        for device in report.devices:
            for part in device.parts:
                only = {"pool": part.pool} if report.by == "pool" else {"stream": part.stream}
                if None in only.values() or not part.peak_bytes:
                    continue
                (alone,) = peak_report(snap, measure=measure, top=0, **only).devices
                assert (alone.peak_bytes, alone.peak_event) == (part.peak_bytes, part.peak_event)
                assert (alone.carried_over_bytes, alone.end_bytes) == (
                    part.start_bytes,
                    part.end_bytes,
                )
                assert sum(group.bytes for group in alone.groups) == alone.peak_bytes


@pytest.mark.parametrize(
    "seed, steps, late, max_entries",
    [(179, 23, 0, 1), (78896, 54, 150, None)],
    ids=["an unmap alone", "maps beside what is known, and an unmap of both"],
)
def test_mapped_range_belongs_to_the_pool_of_its_segment(
    seed: int, steps: int, late: int, max_entries: int | None
) -> None:
    recording = record(
        seed,
        settings="expandable",
        steps=steps,
        late=late,
        max_entries=max_entries,
        private_pools=False,
        event_pools=False,
    )
    snap = mr.open(build.dump(recording.snapshot))
    (device,) = peak_report(snap, measure="reserved").devices
    assert all(part.reserved_end_bytes >= 0 for part in device.parts)
    known = next(part for part in device.parts if part.pool == (0, 0))
    assert known.reserved_end_bytes <= device.end_bytes


def two_pools() -> mr.Snapshot:
    builder = SnapshotBuilder()
    builder.alloc(0x1000, 700, pool_id=(0, 0)).alloc(0x2000, 90, pool_id=(3, 0), stream=7)
    builder.free(0x1000, 700).alloc(0x3000, 100, pool_id=(0, 2))
    return snap_of(builder.finish_segments())


def test_pools_and_streams_have_names() -> None:
    assert labels(two_pools(), "pool") == [("default pool", 700, 1), ("graph pool 3:0", 90, 1)]
    assert labels(two_pools(), "stream") == [("default stream", 700, 1), ("stream 7", 90, 1)]
    (device,) = peak_report(two_pools(), by="pool").devices
    assert [part.pool for part in device.parts] == [(0, 0), (3, 0), (0, 2)]
    assert part_label(device.parts[2], "pool") == "user pool 0:2"
    assert [part.peak_bytes for part in device.parts] == [700, 90, 100]


def test_top_limits_pools() -> None:
    (device,) = peak_report(two_pools(), by="pool", top=1).devices
    assert [group.label for group in device.groups] == ["default pool"]
    assert (device.groups_total, device.rest_bytes, device.rest_count) == (2, 90, 1)
    assert len(device.parts) == 3


def test_pool_may_be_unknown() -> None:
    snap = snap_of(SnapshotBuilder().alloc(1, 9))
    assert labels(snap, "pool") == [("(pool not known)", 9, 1)]
    snap = snap_of(SnapshotBuilder().alloc(1, 9).drop("stream"))
    assert labels(snap, "stream") == [("default stream", 9, 1)]


@pytest.mark.parametrize("measure", MEASURES)
def test_device_without_allocations_is_empty(measure: MeasureName) -> None:
    snap = snap_of(SnapshotBuilder().oom(5))
    for by in ("pool", "stream"):
        (device,) = peak_report(snap, measure=measure, by=by).devices
        assert (device.peak_bytes, device.groups, device.parts) == (0, (), ())


def test_unsupported_options_are_rejected() -> None:
    snap = two_pools()
    with pytest.raises(mr.UsageError, match="no pool 9:9; its pools: 0:0, 3:0, 0:2"):
        peak_report(snap, pool=(9, 9))
    with pytest.raises(mr.UsageError, match="no stream 5; its streams: 0, 7"):
        peak_report(snap, stream=5)
    with pytest.raises(
        mr.UsageError, match=r"by pool or stream, or by the requesting .*, not by category"
    ):
        peak_report(snap, measure="reserved", by="category")
    with pytest.raises(mr.UsageError, match="no pool 9:9; its pools"):
        peak_report(snap, measure="reserved", pool=(9, 9))


def test_devices_without_the_pool_are_left_out() -> None:
    builder = SnapshotBuilder(devices=2)
    builder.alloc(1, 5, device=0, pool_id=(0, 0)).alloc(2, 6, device=1, pool_id=(0, 1))
    report = peak_report(snap_of(builder.finish_segments()), pool=(0, 1))
    assert [(device.device, device.peak_bytes) for device in report.devices] == [(1, 6)]
    assert report.pool == (0, 1)


def test_separate_peaks_are_listed() -> None:
    builder = SnapshotBuilder()
    builder.alloc(1, 100).free(1, 100).alloc(2, 70).alloc(3, 1).free(3, 1).alloc(4, 20)
    (device,) = peak_report(snap_of(builder.finish_segments()), peaks=5).devices
    assert [(one.bytes, one.event_index) for one in device.peaks] == [(100, 0), (90, 7)]
    (device,) = peak_report(snap_of(builder), peaks=1).devices
    assert [one.bytes for one in device.peaks] == [100]


@given(recordings(max_devices=1), st.sampled_from(MEASURES))
def test_numbers_of_a_range_match_the_whole(recording: Recording, measure: MeasureName) -> None:
    data = build.dump(recording.snapshot)
    events = len(recording.snapshot["device_traces"][0])
    start, stop = events // 3, 2 * events // 3
    for device in peak_report(mr.open(data, start=start, stop=stop), measure=measure).devices:
        if device.exactness == "estimated" or stop == start:
            continue
        want = whole(recording.truths[0], measure)[start : stop + 1]
        assert (device.carried_over_bytes, device.end_bytes) == (want[0], want[-1])
        assert device.peak_bytes == max(want)
        assert device.peak_event == start - 1 + want.index(max(want))


@given(traces())
def test_summary_rows_match_the_groups(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    for device in peak_report(snap, top=0).devices:
        usage = snap.replay(device.device).measure()
        by_category = peak_report(snap, by="category", top=0, device=device.device).devices[0]
        assert [(one.category, one.bytes, one.count) for one in device.categories] == [
            (group.label, group.bytes, group.count) for group in by_category.groups
        ]
        assert sum(one.bytes for one in device.categories) == device.peak_bytes
        if device.peak_event >= 0:
            named = Named(snapshot, snap, usage).label("annotation", device.peak_event)
            assert (device.annotations or (OUTSIDE,))[-1] == named
        else:
            assert device.annotations == ()


def train(marks: list[tuple[str, int, int | None]], peak: int) -> mr.Snapshot:
    """Build allocations ten microseconds apart, each of which is freed at once. The peak is at
    event `peak`, and annotations are between events.
    """
    made = SnapshotBuilder()
    for k in range(0, 60, 2):
        size = 9_000 if k == peak else 512
        made.alloc(0x1000, size, time_us=START_US + 10 * k)
        made.free_completed(0x1000, size, time_us=START_US + 10 * k + 10)
    for name, start, end in marks:
        made.annotation(name, "START", START_US + 10 * start - 5)
        if end is not None:
            made.annotation(name, "END", START_US + 10 * end + 5)
    return snap_of(made)


PROFILED = [
    ("ProfilerStep#7", 10, 19),
    ("forward", 11, 14),
    ("Optimizer.step#Adam.step", 15, 18),
    ("ProfilerStep#8", 30, 39),
    ("ProfilerStep#9", 50, None),
]
ADAM = "Optimizer.step#Adam.step"
OPTIMIZED = [(ADAM, 6, 9), ("Optimizer.step#SGD.step", 10, 12), (ADAM, 26, 29), (ADAM, 46, 49)]


@pytest.mark.parametrize(
    "marks, peak, annotations, step",
    [
        ([], 4, (), None),
        ([("forward", 2, 6)], 4, ("forward",), None),
        (PROFILED, 4, (), ("", 1, 2, False)),
        (PROFILED, 12, ("ProfilerStep#7", "forward"), ("ProfilerStep#7", 1, 2, True)),
        (PROFILED, 24, (), ("", 2, 2, False)),
        (PROFILED, 34, ("ProfilerStep#8",), ("ProfilerStep#8", 2, 2, True)),
        # The last annotation has no end, so it isn't a step.
        (PROFILED, 54, ("ProfilerStep#9",), ("", 3, 2, False)),
        (OPTIMIZED, 12, ("Optimizer.step#SGD.step",), (ADAM, 1, 2, True)),
        (OPTIMIZED, 28, (ADAM,), (ADAM, 1, 2, True)),
        (OPTIMIZED, 40, (), (ADAM, 2, 2, True)),
        (OPTIMIZED, 54, (), ("", 3, 2, False)),
    ],
)
def test_step_matches_the_steps_command(
    marks: list[tuple[str, int, int | None]],
    peak: int,
    annotations: tuple[str, ...],
    step: tuple[str, int, int, bool] | None,
) -> None:
    snap = train(marks, peak)
    (found,) = peak_report(snap).devices
    assert found.peak_event == peak
    assert found.annotations == annotations
    at = found.step
    assert (None if at is None else (at.name, at.number, at.of, at.inside)) == step
    assert_as_steps_has_it(snap)


def assert_as_steps_has_it(snap: mr.Snapshot) -> None:
    """Check that peak and steps name the same step for the peak."""
    for peak in peak_report(snap).devices:
        at = peak.step
        if at is None:
            continue
        there = {one.device: one for one in steps_report(snap).devices}[peak.device]
        assert there.step_source is not None
        assert (at.found_by, at.by) == (there.step_source.found_by, there.step_source.name)
        assert at.of == len(there.steps)
        inside = [
            one for one in there.steps if one.first_event <= peak.peak_event <= one.last_event
        ]
        assert [one.number for one in inside] == ([at.number] if at.inside else [])
        before = sum(one.last_event < peak.peak_event for one in there.steps)
        assert at.number == before + 1


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda p: p.name)
def test_step_matches_the_steps_command_for_examples(path: Path) -> None:
    assert_as_steps_has_it(mr.open(path))
