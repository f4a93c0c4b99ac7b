"""frames: a recording with C++ frames groups as the same one without them, in every way."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.code.native import frames_among, frames_of, frames_of_both
from memreplay.analysis.groups.grouping import Grouper
from memreplay.commands.diff.find import diff_report
from memreplay.snapshot.model import By, Frame
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder

WAYS: tuple[By, ...] = (
    *("stack", "line", "innermost", "file", "function", "directory", "module"),
    *("category", "phase", "category,line"),
)
# What C++ runs below Python, above it, and in a thread of its own.
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
    """The same recording as stacks="all" makes it."""

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
    """The same recording without stacks."""
    changed: build.Snapshot = build.with_frames(snapshot, lambda found: {**found, "frames": []})
    return changed


def opened(snapshot: build.Snapshot) -> mr.Snapshot:
    return mr.open(build.dump(snapshot))


@given(recordings(max_steps=60), st.sampled_from(WAYS), st.booleans())
def test_rows_of_the_same_program_are_the_same(recording: Recording, by: By, exact: bool) -> None:
    python, full = opened(recording.snapshot), opened(with_native(recording.snapshot))
    assume(frames_of(python) == "python")
    if by.startswith(("category", "phase")):
        # What was there before with a stack of C++ isn't told apart as what has none is.
        assume(all(not python.replay(one).measure().start_bytes for one in python.devices))
    assert frames_of(full) == "all"
    for pair in ((python, full), (full, python)):
        report = diff_report(*pair, by=by, exact=exact)
        assert (report.frames, report.fewer) == ("python", python.file)
        for device in report.devices:
            assert (device.change_bytes, device.rows) == (0, ())


@given(recordings(max_steps=60), st.sampled_from(WAYS))
def test_beside_a_recording_without_stacks_totals_are_compared(
    recording: Recording, by: By
) -> None:
    bare, full = opened(without_frames(recording.snapshot)), opened(recording.snapshot)
    assume(frames_of(bare) == "none" and frames_of(full) == "python")
    report = diff_report(bare, full, by=by)
    assert report.frames == "none"
    for device in report.devices:
        assert (device.change_bytes, device.rows) == (0, ())


@given(recordings(max_steps=60), st.sampled_from(("stack", "line", "innermost", "file")))
def test_groups_are_those_of_the_recording_without_them(recording: Recording, by: By) -> None:
    python, full = opened(recording.snapshot), opened(with_native(recording.snapshot))
    assume(frames_of(python) == "python")
    for device in python.devices:
        usage, whole = (one.replay(device).measure("requested") for one in (python, full))
        at = usage.peak.event_index
        ours = Grouper(python, by).groups(usage, at, 0)[0]
        theirs = Grouper(full, by, kept="python").groups(whole, at, 0)[0]
        key = [(one.label, one.frames, one.user, one.bytes, one.count) for one in ours]
        assert sorted(key) == sorted(
            (one.label, one.frames, one.user, one.bytes, one.count) for one in theirs
        )


def test_which_frames_there_are() -> None:
    python = [Frame("f", "/a/m.py", 1), Frame("g", "<stdin>", 1), Frame("h", "<frozen a>", 1)]
    assert frames_among(python) == "python"
    assert frames_among([*python, Frame("PyObject_Call", "??", 0)]) == "all"
    assert frames_among([Frame("", "", 0)]) == "python"  # says nothing of either
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
def test_frames_of_both(base: Any, new: Any, both: str) -> None:
    assert frames_of_both(base, new) == frames_of_both(new, base) == both
