"""label: choosing the frame that a stack is attributed to."""

from __future__ import annotations

import pytest

import memreplay as mr
import memreplay._core as _core
from memreplay.analysis.code.plumbing import OUTERMOST
from tests import build
from tests.build import FrameSpec, SnapshotBuilder

PLUMBING: FrameSpec = ("at::empty", "torch.cpp", 1)
LAYER: FrameSpec = ("linear", "layers.py", 5)
MAIN: FrameSpec = ("main", "train.py", 9)


def snapshot() -> mr.Snapshot:
    builder = SnapshotBuilder().alloc(1, 100, frames=[PLUMBING, LAYER, MAIN])
    return mr.open(build.dump(builder.build()))


def ranks(snap: mr.Snapshot, **ranked: int) -> bytes:
    """Return one byte per string: 0 except for these strings ('_' means any other letter)."""
    out = bytearray(snap.native.n_strings)
    for i in range(len(out)):
        text = str(snap.text(i)).replace(".", "_").replace(":", "_")
        out[i] = ranked.get(text, 0)
    return bytes(out)


def test_lowest_rank_wins_then_the_innermost_frame() -> None:
    snap = snapshot()
    native = snap.replay().measure().native
    stack = int(snap.events.stack[0])
    ids = native.replay.tables.stack(stack)

    def label(files: bytes, functions: bytes) -> int:
        return ids.index(native.label_frame(stack, files, functions))

    zero = bytes(snap.native.n_strings)
    ones = b"\x01" * snap.native.n_strings
    most = b"\xff" * snap.native.n_strings
    assert label(zero, zero) == label(ones, ones) == label(most, most) == 0
    assert label(ranks(snap, torch_cpp=2, layers_py=2), ranks(snap, at__empty=3, linear=2)) == 2
    everything = ranks(snap, torch_cpp=2, layers_py=2, train_py=2)
    assert label(everything, ranks(snap, at__empty=5, linear=4, main=4)) == 1
    # For autograd nodes and operators, the outermost frame counts.
    for rank in OUTERMOST:
        assert label(everything, ranks(snap, at__empty=rank, linear=rank, main=4)) == 1
        assert label(everything, ranks(snap, at__empty=rank, linear=4, main=4)) == 0
    # A file of rank 0 is the user's, whatever its functions are called.
    assert label(ranks(snap, torch_cpp=2), ranks(snap, at__empty=2, linear=2)) == 1
    # In any other file the function's rank counts.
    assert label(ranks(snap, torch_cpp=2), zero) == 0
    assert native.label_frame(0, zero, zero) == _core.ABSENT_ID


def test_invalid_arguments_are_refused() -> None:
    snap = snapshot()
    native = snap.replay().measure().native
    zero = bytes(snap.native.n_strings)
    for ranks_ in ((zero, b""), (zero[:-1], zero)):
        with pytest.raises(ValueError, match="one byte per string"):
            native.label_frame(0, *ranks_)
    for stack in (-1, snap.native.n_stacks, 2**70):
        with pytest.raises(IndexError):
            native.label_frame(stack, zero, zero)
