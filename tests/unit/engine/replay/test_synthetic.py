"""synthetic: the events with which CUDA graph trees restore a pool, and their blocks' sizes."""

from __future__ import annotations

import pytest

from tests.build import FrameSpec, SnapshotBuilder
from tests.unit.engine.replay.measured import MIB, A, blocks, counts, sizes

PYTHON: FrameSpec = ("apply_checkpoint_execution_state_in_allocator", "cudagraph_trees.py", 2014)
CPP: FrameSpec = (
    "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::setCheckpointPoolState(int)",
    "??",
    0,
)
OTHER: FrameSpec = ("apply_checkpoint_execution_state_in_allocato", "setCheckpointPoolState.py", 1)
RUN: FrameSpec = ("run", "cudagraph_trees.py", 2171)


@pytest.mark.parametrize("frame", [PYTHON, CPP])
def test_events_under_a_checkpoint_are_counted(frame: FrameSpec) -> None:
    b = SnapshotBuilder().segment_alloc(A, 20 * MIB, frames=[frame, RUN])
    b.alloc(A, 5 * MIB, frames=[RUN]).free(A, 5 * MIB, frames=[RUN, frame])
    b.alloc(A, 5 * MIB, frames=[frame]).oom(5, frames=[frame]).alloc(A + 5 * MIB, 512)
    assert blocks(b).synthetic == 3


def test_other_functions_are_not_counted() -> None:
    b = SnapshotBuilder().alloc(A, 5, frames=[OTHER, RUN]).alloc(A + 512, 5)
    assert blocks(b).synthetic == 0
    # There is a checkpoint somewhere in the file, but not among these events.
    b = SnapshotBuilder(2).alloc(A, 5, 0, frames=[OTHER]).alloc(A, 512, 1, frames=[PYTHON])
    assert blocks(b).synthetic == 0
    assert blocks(b, device=1).synthetic == 1


def test_synthetic_size_is_the_block_size() -> None:
    """With divisions, the block would have 6 MiB, and the next block wouldn't fit."""
    size = 5 * MIB + 512
    b = SnapshotBuilder().segment_alloc(A, 20 * MIB).alloc(A, size, frames=[PYTHON])
    b.alloc(A + size, 10 * MIB, frames=[PYTHON])
    found = blocks(b, divisions=(4,) * 16)
    assert sizes(found)[0] == [0, size, 10 * MIB]
    assert counts(found)[:3] == (2, 0, 0)
    plain = SnapshotBuilder().segment_alloc(A, 20 * MIB).alloc(A, size)
    assert sizes(blocks(plain, divisions=(4,) * 16))[0] == [0, 6 * MIB]


@pytest.mark.parametrize("size", [0, 5, 513])
def test_other_sizes_are_rounded(size: int) -> None:
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, size, frames=[PYTHON])
    b.free_completed(A, size, frames=[PYTHON])
    found = blocks(b)
    assert sizes(found)[0][1] == max(512, (size + 511) // 512 * 512)
    assert counts(found)[1:3] == (0, 0)


def test_checkpoint_free_says_nothing_about_its_alloc() -> None:
    """Frees carry either their alloc's stack or the checkpoint's stack, and these can't be told
    apart.
    """
    b = SnapshotBuilder().free_completed(A, 100, frames=[PYTHON])
    b.alloc(A, 512, frames=[PYTHON]).free_completed(A, 512, frames=[PYTHON])
    b.segment(A, 2 * MIB, segment_type="small", blocks=[b.block(A, 2 * MIB, 0, "inactive")])
    assert sizes(blocks(b))[1] == [512]


@pytest.mark.parametrize("frames, want", [([RUN], 6 * MIB), ([PYTHON], 5 * MIB + 512)])
def test_possible_checkpoint_allocations_are_assumed(frames: list[FrameSpec], want: int) -> None:
    """A free by itself doesn't show whether a request or a checkpoint made the block."""
    size = 5 * MIB + 512
    b = SnapshotBuilder().free_completed(A, size, frames=frames)
    b.alloc(A + 10 * MIB, 512, frames=frames).free(A + 10 * MIB, 512, frames=frames)
    b.segment(A, 20 * MIB, blocks=[b.block(A, 20 * MIB, 0, "inactive")])
    found = blocks(b, divisions=(4,) * 16, expandable=True)
    assert sizes(found)[1] == [want]
    assert found.assumed - found.misplaced == (frames == [PYTHON])


def test_oversized_requests_come_from_a_checkpoint() -> None:
    """With divisions, a request of this size takes 6 MiB, and less space is available."""
    size = 5 * MIB + 512
    b = SnapshotBuilder().free_completed(A, size)
    b.segment(A, size, blocks=[b.block(A, size, 0, "inactive")])
    found = blocks(b, divisions=(4,) * 16)
    assert sizes(found)[1] == [size]
    assert counts(found) == (0, 1, 0, 0)
    for other in (size - 1, size + 512):  # not a block size; larger than the space
        b = SnapshotBuilder().free_completed(A, other)
        b.segment(A, size, blocks=[b.block(A, size, 0, "inactive")])
        assert counts(blocks(b, divisions=(4,) * 16)) == (0, 1, 1, 0)
