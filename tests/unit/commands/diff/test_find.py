"""diff: rows add up to the change, and only real changes are shown."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.commands.diff.find import diff_report
from memreplay.commands.diff.result import DeviceDiff, DiffReport
from memreplay.commands.diff.text import diff_document
from memreplay.commands.peak.find import peak_report
from memreplay.errors import UsageError
from memreplay.render.plain import render_plain
from memreplay.snapshot.model import By, MeasureName, When
from tests import build
from tests.allocator_strategies import Recording, record, recordings
from tests.build import SnapshotBuilder

WAYS: tuple[By, ...] = ("stack", "line", "file", "function", "pool", "stream")


def opened(snapshot: build.Snapshot) -> mr.Snapshot:
    return mr.open(build.dump(snapshot))


def check_sums(report: DiffReport) -> None:
    for device in report.devices:
        assert device.change_bytes == device.new.bytes - device.base.bytes
        shown = sum(row.change_bytes for row in device.rows)
        assert shown + device.rest_change_bytes == device.change_bytes
        assert len(device.rows) <= device.rows_total <= sum(device.statuses.values())


@given(
    recordings(max_steps=60),
    recordings(max_steps=60),
    st.sampled_from(WAYS),
    st.sampled_from(["requested", "held", "active"]),
    st.sampled_from([When("peak", 1), When("end"), When("start")]),
    st.booleans(),
)
def test_rows_add_up_to_the_change(
    base: Recording, new: Recording, by: By, measure: MeasureName, when: When, exact: bool
) -> None:
    ours, theirs = opened(base.snapshot), opened(new.snapshot)
    assume(set(ours.devices) & set(theirs.devices))
    for top in (0, 2):
        report = diff_report(ours, theirs, by=by, measure=measure, at=when, exact=exact, top=top)
        check_sums(report)
        for device in report.devices:
            if not top:
                assert device.rest_change_bytes == 0
            usage = ours.replay(device.device).measure(measure)
            assert device.base.bytes == usage.bytes_at(device.base.event_index)


@given(recordings(max_steps=60), st.sampled_from(WAYS), st.booleans())
def test_snapshot_has_no_changes_against_itself(recording: Recording, by: By, exact: bool) -> None:
    snap = opened(recording.snapshot)
    for device in diff_report(snap, snap, by=by, exact=exact).devices:
        assert (device.rows, device.change_bytes) == ((), 0)
        assert set(device.statuses) <= {"same"}


SITE = "/v/lib/python3.12/site-packages/torch/nn/modules/"


def layers(sizes: list[int]) -> SnapshotBuilder:
    """Build one allocation per layer, each on its own line of functions that call each other."""
    builder = SnapshotBuilder(shared_lists=True)
    for i, size in enumerate(sizes):
        frames = [
            ("linear", SITE + "linear.py", 3),
            ("project" if i % 2 else "attend", "/home/a/gpt/model.py", 10 + i),
            ("forward", "/home/a/gpt/model.py", 90),
            ("main", "/home/a/gpt/train.py", 5),
        ]
        builder.alloc((i + 1) << 20, size, frames=frames)
    return builder


def moved(snapshot: build.Snapshot, change: Callable[[dict[str, Any]], None]) -> build.Snapshot:
    """Return the same recording with changed frames."""
    copied = copy.deepcopy(snapshot)
    seen: set[int] = set()
    for trace in copied["device_traces"]:
        for event in trace:
            for frame in event["frames"]:
                if id(frame) not in seen:
                    seen.add(id(frame))
                    change(frame)
    return copied


def shift(frame: dict[str, Any]) -> None:
    frame["line"] += 17


def other_root(frame: dict[str, Any]) -> None:
    frame["filename"] = (
        frame["filename"]
        .replace("/home/a/gpt", "/workspace/job 7/gpt")
        .replace("/v/lib/python3.12", "/usr/lib/python3.13")
    )


def rename(frame: dict[str, Any]) -> None:
    frame["name"] = frame["name"].replace("attend", "attention")


def of(base: build.Snapshot, new: build.Snapshot, **options: Any) -> DeviceDiff:
    report = diff_report(opened(base), opened(new), top=0, **options)
    check_sums(report)
    (device,) = report.devices
    return device


@pytest.mark.parametrize("change", [shift, other_root, rename])
@pytest.mark.parametrize("exact", [False, True])
def test_moved_code_is_not_a_change(change: Callable[[dict[str, Any]], None], exact: bool) -> None:
    sizes = [100, 200, 300, 400]
    base = layers(sizes).build()
    assert (of(base, moved(base, change), exact=exact).rows == ()) is not exact
    # One allocation grew by 50.
    new = moved(layers([100, 200, 350, 400]).build(), change)
    found = of(base, new, exact=exact)
    assert found.change_bytes == 50
    if not exact:
        assert [(row.change_bytes, row.status) for row in found.rows] == [(50, "grew")]


def test_lines_may_move_to_the_places_of_others() -> None:
    def by_two(frame: dict[str, Any]) -> None:
        frame["line"] += 2  # each layer's line becomes the next layer's line in the same function

    base = layers([100, 200, 300, 400, 500, 600]).build()
    assert of(base, moved(base, by_two)).rows == ()
    new = moved(layers([100, 200, 300, 400, 510, 600]).build(), by_two)
    assert [row.change_bytes for row in of(base, new).rows] == [10]


def test_rows_have_a_status_and_are_ordered_by_change() -> None:
    base = layers([100, 200, 300, 400]).build()
    builder = layers([150, 200, 20])
    builder.alloc(1 << 30, 90, frames=[("cache", "/home/a/gpt/kv.py", 2)])
    found = of(base, builder.build())
    rows = [(row.change_bytes, row.status) for row in found.rows]
    assert rows == [(-400, "gone"), (-280, "shrank"), (90, "new"), (50, "grew")]
    assert found.statuses == {"gone": 1, "shrank": 1, "new": 1, "grew": 1, "same": 1}
    everything = of(base, builder.build(), unchanged=True)
    assert [row.status for row in everything.rows][-1] == "same"
    counts = [(row.base_count, row.new_count) for row in found.rows]
    assert counts == [(1, 0), (1, 1), (0, 1), (1, 1)]


def test_function_split_off_is_one_row() -> None:
    helper = [
        ("linear", SITE + "linear.py", 3),
        ("helper", "/home/a/gpt/model.py", 70),
        ("attend", "/home/a/gpt/model.py", 10),
        ("forward", "/home/a/gpt/model.py", 90),
        ("main", "/home/a/gpt/train.py", 5),
    ]
    base = layers([100]).build()
    found = of(base, SnapshotBuilder().alloc(1 << 30, 105, frames=helper).build())
    (row,) = found.rows
    assert (row.change_bytes, row.status, row.below) == (5, "grew", True)
    assert [frame.function for frame in row.frames] == ["attend", "forward", "main"]
    # Memory that exists on both sides isn't part of the change.
    found = of(base, layers([60]).alloc(1 << 30, 45, frames=helper).build())
    rows = [(row.change_bytes, row.status, row.below) for row in found.rows]
    assert rows == [(45, "new", False), (-40, "shrank", False)]


def test_rows_that_differ_only_in_plumbing_are_merged() -> None:
    def made(*sizes: int) -> build.Snapshot:
        builder = SnapshotBuilder()
        for i, n_bytes in enumerate(sizes):
            torch = ("linear", SITE + "linear.py", 3 + i)
            builder.alloc(512 * i, n_bytes, frames=[torch, ("f", "/home/a/m.py", 7)])
        return builder.build()

    found = of(made(100, 200), made(150, 200, 30))
    (row,) = found.rows
    assert (row.base_bytes, row.new_bytes, row.status) == (300, 380, "grew")
    assert (row.base_groups, row.new_groups) == (2, 3)
    found = of(made(100, 200), made(150, 200, 30), all_frames=True)
    assert [(row.change_bytes, row.status) for row in found.rows] == [(50, "grew"), (30, "new")]


def test_only_stacks_are_merged() -> None:
    def made(grown: int) -> build.Snapshot:
        builder = SnapshotBuilder()
        for i, file in enumerate(("libtorch_cpu.so", "libtorch_cuda.so")):
            builder.alloc(512 * i, 100 + grown + i, frames=[("at::native::empty", file, 5)])
            callers = [("f", "/home/a/m.py", 7), ("g", "/home/a/m.py", 20 + i)]
            builder.alloc(1 << 20 | 512 * i, 100 + grown + i, frames=callers)
        return builder.build()

    for by, rows in (("file", 3), ("line", 3), ("category,stack", 4), ("innermost", 3)):
        assert len(of(made(0), made(5), by=by).rows) == rows, by


def test_with_several_keys_rows_match_only_if_all_names_agree() -> None:
    def made(first: int, second: int) -> build.Snapshot:
        builder = SnapshotBuilder()
        frames = [("forward", "/home/a/gpt/model.py", 90)]
        builder.event("alloc", 512, first, frames=frames, user_metadata="warm")
        builder.event("alloc", 1024, second, frames=frames, user_metadata="cold")
        return builder.event("alloc", 2048, 5, frames=[], user_metadata="cold").build()

    new = moved(made(150, 180), other_root)
    for by in ("user_metadata,file", "user_metadata,file,function", "line,user_metadata"):
        found = of(made(100, 200), new, by=by)
        assert [row.change_bytes for row in found.rows] == [50, -20]
        texts = [[label.text for label in row.of] for row in found.rows]
        assert all("warm" in text or "cold" in text for text in texts)
        assert found.statuses == {"grew": 1, "shrank": 1, "same": 1}
        for row, text in zip(found.rows, texts, strict=True):
            assert row.label == ", ".join(text)
        exact = of(made(100, 200), new, by=by, exact=True)
        assert sorted(row.change_bytes for row in exact.rows) == [-200, -100, 150, 180]


def test_with_several_keys_a_split_function_keeps_its_other_names() -> None:
    def made(*inner: tuple[str, str, int]) -> build.Snapshot:
        frames = [*inner, ("g", "/home/a/m.py", 5), ("main", "/home/a/t.py", 1)]
        builder = SnapshotBuilder()
        for size in (100, 120):
            builder.event("alloc", size << 10, size, frames=frames, user_metadata="warm")
            frames = [("late", "/home/a/m.py", 70), *frames[-2:]] if inner else frames[-2:]
        return builder.build()

    found = of(made(), made(("early", "/home/a/m.py", 60)), by="user_metadata,stack")
    assert found.rows == ()
    new = made(("early", "/home/a/m.py", 60), ("x", "/home/a/m.py", 1))
    (row,) = of(made(), new, by="user_metadata,stack", unchanged=True).rows
    assert (row.label, row.change_bytes) == ("warm, g /home/a/m.py:5", 0)


def test_carried_over_memory_is_compared_by_label() -> None:
    def with_carried(size: int) -> build.Snapshot:
        return SnapshotBuilder().alloc(512, 10).free_completed(1 << 30, size).build()

    found = of(with_carried(1000), with_carried(1300))
    assert [(row.label, row.change_bytes) for row in found.rows] == [
        ("(allocated before the recording)", 300)
    ]


def test_only_devices_on_both_sides_are_compared() -> None:
    base = opened(SnapshotBuilder(devices=2).alloc(512, 10).alloc(512, 20, device=1).build())
    new = opened(
        SnapshotBuilder(devices=3).alloc(512, 50, device=1).alloc(512, 1, device=2).build()
    )
    report = diff_report(base, new)
    assert [(one.device, one.change_bytes) for one in report.devices] == [(1, 30)]
    assert (report.only_base, report.only_new) == ((0,), (2,))
    with pytest.raises(UsageError, match="no device in common: device 0 in"):
        diff_report(opened(SnapshotBuilder().alloc(512, 1).build()), new)


def test_single_devices_are_compared_despite_different_numbers() -> None:
    """For example, two ranks of one job, each with its own device."""
    base = opened(SnapshotBuilder(devices=4).alloc(512, 10, device=3).build())
    new = opened(SnapshotBuilder(devices=2).alloc(512, 50, device=1).build())
    report = diff_report(base, new)
    assert [(one.base_device, one.device, one.change_bytes) for one in report.devices] == [
        (3, 1, 40)
    ]
    assert (report.only_base, report.only_new) == ((), ())
    (same,) = diff_report(base, base).devices
    assert (same.base_device, same.device) == (3, 3)


def test_moment_missing_on_one_side_is_an_error() -> None:
    base, new = opened(record(1, steps=50).snapshot), opened(record(2, steps=90).snapshot)
    last = new.replay().events - 1
    with pytest.raises(UsageError, match=f"has no event {last}"):
        diff_report(base, new, at=When("event", last))


LIBRARY = "/v/lib/python3.12/site-packages/einops/"


@pytest.mark.parametrize("moved", [0, 3])
def test_library_called_by_user_code_is_named_like_in_peak(moved: int) -> None:
    def side(size: int, at: int) -> mr.Snapshot:
        made = SnapshotBuilder()
        for k, line in enumerate((288, 290)):
            stack = [
                ("einsum", LIBRARY + "_backends.py", line),
                ("forward", "/home/ana/layers.py", 22 + at),
                ("main", "/home/ana/train.py", 9),
            ]
            made.alloc(0x10000 * (k + 1), size, frames=stack)
        return opened(made.build())

    new = side(9_000, moved)
    (device,) = diff_report(side(5_000, 0), new).devices
    groups = {group.frames: group for group in peak_report(new).devices[0].groups}
    assert device.rows
    for row in device.rows:
        assert [row.frames[i].file for i in row.user] == [
            "/home/ana/layers.py",
            "/home/ana/train.py",
        ]
        if row.frames in groups:
            assert row.libraries == groups[row.frames].libraries == (0,)
        assert not set(row.libraries) & set(row.user)
    assert any(row.libraries for row in device.rows)
    report = diff_report(side(5_000, 0), new)
    assert "via einops: einsum" in render_plain(diff_document(report), width=120)
