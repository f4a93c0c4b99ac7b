"""frames: a recording has the same groups with and without C++ frames, for every key."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.code.native import frames_among, frames_of, frames_of_both
from memreplay.analysis.groups.grouping import Evidence, Grouper
from memreplay.commands.diff.find import diff_report
from memreplay.snapshot.model import By, Frame
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder

WAYS: tuple[By, ...] = (
    *("stack", "line", "innermost", "file", "function", "directory", "module"),
    *("category", "phase", "category,line"),
)
# C++ frames inside the Python frames, outside them, and in a C++ thread.
INNER = (
    ("CUDACachingAllocator::malloc", "libc10_cuda.so"),
    ("at::_ops::empty_memory_format::call(c10::ArrayRef<long>)", "??"),
    ("at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)", ""),
    ("at::_ops::linear::redispatch(c10::DispatchKeySet, at::Tensor const&)", "Linear.cpp"),
)
OUTER = (("PyObject_Call", "??"), ("_PyEval_EvalFrameDefault", "/usr/bin/python3.11"))
THREAD = (
    ("torch::autograd::generated::MulBackward0::apply(std::vector<at::Tensor>&&)", "??"),
    ("torch::autograd::Engine::thread_main(std::shared_ptr<GraphTask> const&)", "engine.cpp"),
    ("execute_native_thread_routine", "libstdc++.so.6.0.30"),
)


def entry(function: str, file: str) -> dict[str, Any]:
    return {"name": function, "filename": file, "line": 0}


def with_native(snapshot: build.Snapshot) -> build.Snapshot:
    """Return the same recording made with stacks="all"."""

    def change(found: dict[str, Any]) -> dict[str, Any]:
        frames = found["frames"]
        several = zlib.crc32(repr([one["line"] for one in frames]).encode()) % len(INNER)
        inner = [entry(*one) for one in INNER[: several + 1]]
        if not frames:
            return {**found, "frames": inner + [entry(*one) for one in THREAD]}
        between = [one for frame in frames for one in (frame, entry(*OUTER[0]))]
        return {**found, "frames": [*inner, *between, entry(*OUTER[1])]}

    changed: build.Snapshot = build.with_frames(snapshot, change)
    return changed


def without_frames(snapshot: build.Snapshot) -> build.Snapshot:
    """Return the same recording without stacks."""
    changed: build.Snapshot = build.with_frames(snapshot, lambda found: {**found, "frames": []})
    return changed


def opened(snapshot: build.Snapshot) -> mr.Snapshot:
    return mr.open(build.dump(snapshot))


@given(recordings(max_steps=60), st.sampled_from(WAYS), st.booleans())
def test_rows_of_the_same_program_are_equal(recording: Recording, by: By, exact: bool) -> None:
    python, full = opened(recording.snapshot), opened(with_native(recording.snapshot))
    assume(frames_of(python) == "python")
    if by.startswith(("category", "phase")):
        # Without stacks, carried-over memory is divided by likely origin; with C++ stacks, it
        # isn't.
        assume(all(not python.replay(one).measure().start_bytes for one in python.devices))
    assert frames_of(full) == "all"
    for pair in ((python, full), (full, python)):
        report = diff_report(*pair, by=by, exact=exact)
        assert (report.stack_frames, report.fewer) == ("python", python.file)
        for device in report.devices:
            assert (device.change_bytes, device.rows) == (0, ())


@given(recordings(max_steps=60), st.sampled_from(WAYS))
def test_only_totals_are_compared_if_one_side_lacks_stacks(recording: Recording, by: By) -> None:
    bare, full = opened(without_frames(recording.snapshot)), opened(recording.snapshot)
    assume(frames_of(bare) == "none" and frames_of(full) == "python")
    report = diff_report(bare, full, by=by)
    assert report.stack_frames == "none"
    for device in report.devices:
        assert (device.change_bytes, device.rows) == (0, ())


@given(recordings(max_steps=60), st.sampled_from(("stack", "line", "innermost", "file")))
def test_groups_match_the_recording_without_all_frames(recording: Recording, by: By) -> None:
    python, full = opened(recording.snapshot), opened(with_native(recording.snapshot))
    assume(frames_of(python) == "python")
    for device in python.devices:
        usage, whole = (one.replay(device).measure("requested") for one in (python, full))
        at = usage.peak.event_index
        ours = Grouper(python, by).groups(usage, at, 0)[0]
        theirs = Grouper(full, by, evidence=Evidence(kept="python")).groups(whole, at, 0)[0]
        key = [(one.label, one.frames, one.user, one.bytes, one.count) for one in ours]
        assert sorted(key) == sorted(
            (one.label, one.frames, one.user, one.bytes, one.count) for one in theirs
        )


def test_kind_of_recorded_frames_is_detected() -> None:
    python = [Frame("f", "/a/m.py", 1), Frame("g", "<stdin>", 1), Frame("h", "<frozen a>", 1)]
    assert frames_among(python) == "python"
    assert frames_among([*python, Frame("PyObject_Call", "??", 0)]) == "all"
    assert frames_among([Frame("", "", 0)]) == "python"  # could be either
    assert frames_among([]) == "none"
    assert frames_of(opened(SnapshotBuilder().build())) is None


@pytest.mark.parametrize(
    "base, new, both",
    [
        ("all", "all", "all"),
        ("all", "python", "python"),
        ("none", "python", "none"),
        (None, "python", "python"),
        (None, None, "all"),
    ],
)
def test_comparison_uses_the_snapshot_with_fewer_frames(base: Any, new: Any, both: str) -> None:
    assert frames_of_both(base, new) == frames_of_both(new, base) == both
