"""synthetic: the events by which CUDA graph trees set a pool back, and their sizes of blocks."""

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
def test_events_below_a_checkpoint_are_counted(frame: FrameSpec) -> None:
    b = SnapshotBuilder().segment_alloc(A, 20 * MIB, frames=[frame, RUN])
    b.alloc(A, 5 * MIB, frames=[RUN]).free(A, 5 * MIB, frames=[RUN, frame])
    b.alloc(A, 5 * MIB, frames=[frame]).oom(5, frames=[frame]).alloc(A + 5 * MIB, 512)
    assert blocks(b).synthetic == 3


def test_other_functions_are_not() -> None:
    b = SnapshotBuilder().alloc(A, 5, frames=[OTHER, RUN]).alloc(A + 512, 5)
    assert blocks(b).synthetic == 0
    # A checkpoint somewhere in the file, and none among these events.
    b = SnapshotBuilder(2).alloc(A, 5, 0, frames=[OTHER]).alloc(A, 512, 1, frames=[PYTHON])
    assert blocks(b).synthetic == 0
    assert blocks(b, device=1).synthetic == 1


def test_their_size_is_the_blocks() -> None:
    """With divisions the block would be 6 MiB, which is no room for the one behind it."""
    size = 5 * MIB + 512
    b = SnapshotBuilder().segment_alloc(A, 20 * MIB).alloc(A, size, frames=[PYTHON])
    b.alloc(A + size, 10 * MIB, frames=[PYTHON])
    found = blocks(b, divisions=(4,) * 16)
    assert sizes(found)[0] == [0, size, 10 * MIB]
    assert counts(found)[:3] == (2, 0, 0)
    plain = SnapshotBuilder().segment_alloc(A, 20 * MIB).alloc(A, size)
    assert sizes(blocks(plain, divisions=(4,) * 16))[0] == [0, 6 * MIB]


@pytest.mark.parametrize("size", [0, 5, 513])
def test_what_is_no_blocks_size_is_rounded_all_the_same(size: int) -> None:
    b = SnapshotBuilder().segment_alloc(A, 2 * MIB).alloc(A, size, frames=[PYTHON])
    b.free_completed(A, size, frames=[PYTHON])
    found = blocks(b)
    assert sizes(found)[0][1] == max(512, (size + 511) // 512 * 512)
    assert counts(found)[1:3] == (0, 0)


def test_a_free_of_a_checkpoint_says_nothing_of_its_alloc() -> None:
    """Frees carry their alloc's stack here, or the checkpoint's own: nobody can tell."""
    b = SnapshotBuilder().free_completed(A, 100, frames=[PYTHON])
    b.alloc(A, 512, frames=[PYTHON]).free_completed(A, 512, frames=[PYTHON])
    b.segment(A, 2 * MIB, segment_type="small", blocks=[b.block(A, 2 * MIB, 0, "inactive")])
    assert sizes(blocks(b))[1] == [512]


@pytest.mark.parametrize("frames, want", [([RUN], 6 * MIB), ([PYTHON], 5 * MIB + 512)])
def test_what_may_be_of_a_checkpoints_making_is_assumed(frames: list[FrameSpec], want: int) -> None:
    """A free alone does not tell who made the block: a request of the size, or a checkpoint."""
    size = 5 * MIB + 512
    b = SnapshotBuilder().free_completed(A, size, frames=frames)
    b.alloc(A + 10 * MIB, 512, frames=frames).free(A + 10 * MIB, 512, frames=frames)
    b.segment(A, 20 * MIB, blocks=[b.block(A, 20 * MIB, 0, "inactive")])
    found = blocks(b, divisions=(4,) * 16, expandable=True)
    assert sizes(found)[1] == [want]
    assert found.assumed - found.misplaced == (frames == [PYTHON])


def test_what_is_too_large_as_a_request_is_of_a_checkpoints_making() -> None:
    """With divisions a request of this size has 6 MiB, and there is less."""
    size = 5 * MIB + 512
    b = SnapshotBuilder().free_completed(A, size)
    b.segment(A, size, blocks=[b.block(A, size, 0, "inactive")])
    found = blocks(b, divisions=(4,) * 16)
    assert sizes(found)[1] == [size]
    assert counts(found) == (0, 1, 0, 0)
    for other in (size - 1, size + 512):  # no block's size; larger than what is there
        b = SnapshotBuilder().free_completed(A, other)
        b.segment(A, size, blocks=[b.block(A, size, 0, "inactive")])
        assert counts(blocks(b, divisions=(4,) * 16)) == (0, 1, 1, 0)
