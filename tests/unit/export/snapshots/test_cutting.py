"""Tests of export/snapshots/cutting.py; tests/property/test_slice.py compares the numbers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.export.snapshots.cutting import cut
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.build import START_US, SnapshotBuilder
from tests.torch_parts import torch_part

A, B, C = 0x1000, 0x2000, 0x3000
USER = ("mine", "/home/ana/model.py", 1)
PLUMBING = ("at::empty", "", 0)


def sliced(snapshot: Any, first: int | None, last: int | None, **options: Any) -> dict[str, Any]:
    snap = mr.open(build.dump(snapshot), start=first, stop=last)
    made: dict[str, Any] = pickle.loads(b"".join(cut(snap, **options)[1]))
    return made


def test_whole_snapshot_is_unchanged() -> None:
    builder = SnapshotBuilder(compile_context="N/A", user_metadata={"a": [1, 2.5, None, "x"]})
    builder.alloc(A, 5, frames=[USER], stream=2**64 - 1, pool_id=(0, 1))
    builder.oom(7, 1 << 33, frames=[USER]).free(B, 9, frames=[])
    builder.free_completed(A, 5, frames=[USER]).settings(max_split_size=-1, roundup=[1, 2])
    builder.top("memreplay", {"cards": [{"total_bytes": 1 << 34}], "rank": None, "é": [1.5]})
    builder.annotation("step", "START").alloc(C, 1 << 40, frames=[USER, PLUMBING], pool_id=(0, 0))
    whole = builder.finish_segments().build()
    assert sliced(whole, None, None) == whole


def test_nothing_is_added_if_frees_have_alloc_stacks() -> None:
    builder = SnapshotBuilder().alloc(A, 5, frames=[USER]).alloc(B, 6, frames=[PLUMBING])
    builder.free(A, 5, frames=[USER]).alloc(C, 7, frames=[USER]).free(C, 7, frames=[USER])
    made = sliced(builder.finish_segments().build(), 2, None)
    assert [event["action"] for event in made["device_traces"][0]] == [
        *("free_requested", "free_completed", "alloc", "free_requested", "free_completed"),
    ]
    (block,) = (b for s in made["segments"] for b in s["blocks"])
    assert (block["address"], block["frames"][0]["name"]) == (B, "at::empty")


def test_free_of_a_free_block_is_kept() -> None:
    builder = SnapshotBuilder().alloc(A, 5).free(A, 5).alloc(B, 6).free_completed(A, 5)
    snap = mr.open(build.dump(builder.finish_segments().build()), start=3)
    assert snap.replay().usage.tolist() == [6, 6]
    part = mr.open(b"".join(cut(snap)[1]))
    assert part.replay().usage.tolist() == [6, 6]
    assert part.replay().unmatched_frees == 1


def test_segments_are_those_at_the_end_of_the_range() -> None:
    builder = SnapshotBuilder()
    builder.segment_alloc(A, 2 << 20, frames=[USER]).alloc(A, 512, frames=[USER])
    builder.alloc(A + 512, 100, frames=[PLUMBING]).free(A, 512, frames=[USER])
    builder.free(A + 512, 100).segment_free(A, 2 << 20)
    made = sliced(builder.build(), 1, 5)
    (segment,) = made["segments"]
    assert (segment["address"], segment["total_size"]) == (A, 2 << 20)
    assert (segment["active_size"], segment["requested_size"]) == (512, 100)
    assert segment["segment_type"] == "small"
    assert segment["frames"] == []
    assert [(b["size"], b["state"]) for b in segment["blocks"]] == [
        *((512, "inactive"), (512, "active_allocated"), ((2 << 20) - 1024, "inactive")),
    ]


def test_annotations_that_overlap_the_range_are_kept() -> None:
    builder = SnapshotBuilder(start_us=START_US)
    for i in range(10):
        builder.alloc(A + i * 512, 1, time_us=START_US + 10 * i)
    marks = [("over", 5, 95), ("before", 1, 9), ("in", 45, 48), ("after", 91, 93), ("into", 2, 41)]
    for name, start, end in marks:
        builder.annotation(name, "START", START_US + start)
        builder.annotation(name, "END", START_US + end)
    made = sliced(builder.finish_segments().build(), 4, 7)
    names = [a["name"] for a in made["external_annotations"]]
    assert names == ["over", "over", "in", "in", "into", "into"]


@pytest.mark.parametrize(
    "strip, want", [(None, ["at::empty", "mine"]), ("plumbing", ["mine"]), ("all", [])]
)
def test_stripped_frames_are_removed(strip: Any, want: list[str]) -> None:
    builder = SnapshotBuilder().alloc(A, 5, frames=[PLUMBING, USER]).alloc(B, 5, frames=[PLUMBING])
    made = sliced(builder.finish_segments().build(), None, None, strip=strip)
    first, second = made["device_traces"][0]
    assert [frame["name"] for frame in first["frames"]] == want
    assert [frame["name"] for frame in second["frames"]] == (
        [] if strip == "all" else ["at::empty"]
    )


def test_selected_device_is_the_only_one_written() -> None:
    builder = SnapshotBuilder(devices=3).alloc(A, 1, device=1).alloc(B, 2, device=2)
    snap = mr.open(build.dump(builder.finish_segments().build()), device=1)
    made = pickle.loads(b"".join(cut(snap)[1]))
    assert [len(trace) for trace in made["device_traces"]] == [0, 1, 0]
    assert [segment["device"] for segment in made["segments"]] == [1]


def test_bare_list_of_segments_becomes_a_snapshot() -> None:
    segments = SnapshotBuilder().alloc(A, 1).finish_segments().build()["segments"]
    made = pickle.loads(b"".join(cut(mr.open(build.dump(segments)))[1]))
    assert made == {"segments": segments, "device_traces": []}


def test_slices_of_real_files_have_the_same_numbers(corpus_file: Path) -> None:
    n = mr.open(corpus_file).native.n_events
    for first, last in ((None, None), (n // 3, n // 2 + 1), (n // 2, None)):
        whole = mr.open(corpus_file, start=first, stop=last)
        data = b"".join(cut(whole)[1])
        assert data == b"".join(cut(mr.open(corpus_file, start=first, stop=last))[1])
        part = mr.open(data)
        for device in whole.devices:
            for name in MEASURES:
                want = whole.replay(device).measure(name)
                found = part.replay(device).measure(name)
                assert found.series.tolist() == want.series.tolist(), name
                assert found.start_bytes == want.start_bytes


@pytest.mark.viewers
def test_torch_reads_the_result() -> None:
    viz = torch_part("torch.cuda._memory_viz")
    builder = SnapshotBuilder().alloc(A, 5, frames=[USER]).alloc(B, 6, frames=[USER])
    made = sliced(builder.free(A, 5, frames=[]).finish_segments().build(), 1, None)
    assert "total_allocated: 6.0B" in viz.segsum(made)
    assert "free completed for" in viz.trace(made)


def pending_snapshot() -> Any:
    """Build a snapshot with three or four events between a free's request and its completion."""
    builder = SnapshotBuilder().segment_alloc(A, 2 << 20).alloc(A, 512).alloc(A + 512, 1024)
    builder.free(A, 512).alloc(A + 1536, 100)
    blocks = [
        builder.block(A, 512, 0, "inactive"),
        builder.block(A + 512, 1024, 1024),
        builder.block(A + 1536, 512, 100),
        builder.block(A + 2048, (2 << 20) - 2048, 0, "inactive"),
    ]
    return builder.segment(A, 2 << 20, segment_type="small", blocks=blocks).build()


@pytest.mark.parametrize(
    "first, last, pending",
    [
        (None, 4, (1, 512, 3)),
        (2, 4, (1, 512, 3)),
        (None, 3, (0, 0, None)),
        (None, 5, (0, 0, None)),
        (None, None, (0, 0, None)),
    ],
)
def test_free_cut_between_request_and_completion_is_counted_as_pending(
    first: int | None, last: int | None, pending: tuple[int, int, int | None]
) -> None:
    snap = mr.open(build.dump(pending_snapshot()), start=first, stop=last)
    (one,) = cut(snap)[0].devices
    assert (one.pending_blocks, one.pending_bytes, one.settled_stop) == pending


def test_pending_free_before_the_range_is_not_settled() -> None:
    snap = mr.open(build.dump(pending_snapshot()), start=3, stop=4)
    (one,) = cut(snap)[0].devices
    assert one.settled_stop is None


def test_free_pending_at_the_end_of_the_file_is_unchanged() -> None:
    builder = SnapshotBuilder().alloc(A, 512)
    builder.event("free_requested", A, 512)
    pending = builder.block(A, 512, 500, "active_pending_free")
    snap = mr.open(build.dump(builder.segment(A, 2 << 20, blocks=[pending]).build()))
    (one,) = cut(snap)[0].devices
    assert one.pending_blocks == 0
