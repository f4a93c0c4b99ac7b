"""fold: a live set grouped by stack, frame, file and function, and what a stack is put down to."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay import _core, _timeline
from tests import build
from tests.build import FrameSpec, SnapshotBuilder

PLUMBING: FrameSpec = ("at::empty", "torch.cpp", 1)
LAYER: FrameSpec = ("linear", "layers.py", 5)
LAYER_2: FrameSpec = ("linear", "layers.py", 6)
MAIN: FrameSpec = ("main", "train.py", 9)


def snapshot() -> mr.Snapshot:
    builder = SnapshotBuilder()
    builder.alloc(1, 100, frames=[PLUMBING, LAYER, MAIN])
    builder.alloc(2, 30, frames=[PLUMBING, LAYER_2, MAIN])
    builder.alloc(3, 30, frames=[PLUMBING, LAYER_2, MAIN])
    builder.alloc(4, 7, frames=[MAIN])
    builder.alloc(5, 9)
    builder.free_completed(6, 1000)
    builder.finish_segments([(0, 2**40, 5)])
    return mr.open(build.dump(builder.build()))


def ranks(snap: mr.Snapshot, **ranked: int) -> bytes:
    """A byte a string: 0 but for these texts ('_' stands for any other letter)."""
    out = bytearray(snap.native.n_strings)
    for i in range(len(out)):
        text = str(snap.text(i)).replace(".", "_").replace(":", "_")
        out[i] = ranked.get(text, 0)
    return bytes(out)


def groups(
    snap: mr.Snapshot, event: int, by: str, files: bytes, functions: bytes
) -> list[tuple[str, int, int]]:
    rows, total, whole, count = (
        snap.replay().measure().native.groups(event, by, files, functions, 0)
    )
    assert (total, whole, count) == (len(rows), sum(r[1] for r in rows), sum(r[2] for r in rows))
    return [(spell(snap, by, key), size, n) for key, size, n in rows]


def spell(snap: mr.Snapshot, by: str, key: int) -> str:
    if key == _timeline.NO_STACK:
        return "no stack"
    if key == _timeline.BEFORE_RECORDING:
        return "before"
    if by == "stack":
        return "<".join(f.function for f in snap.stack(key))
    if by == "frame":
        return f"{snap.frame(key).file}:{snap.frame(key).line}"
    return str(snap.text(key))


def test_by_stack() -> None:
    snap = snapshot()
    zero = bytes(snap.native.n_strings)
    assert groups(snap, 4, "stack", zero, zero) == [
        ("before", 1005, 2),
        ("at::empty<linear<main", 100, 1),
        ("at::empty<linear<main", 60, 2),
        ("no stack", 9, 1),
        ("main", 7, 1),
    ]


def test_by_frame_file_and_function() -> None:
    snap = snapshot()
    files = ranks(snap, torch_cpp=1)
    functions = ranks(snap, at__empty=1)
    rest = [("no stack", 9, 1), ("before", 5, 1)]

    def of(by: str) -> list[tuple[str, int, int]]:
        return groups(snap, 5, by, files, functions)

    frames = [("layers.py:5", 100, 1), ("layers.py:6", 60, 2), rest[0], ("train.py:9", 7, 1)]
    assert of("frame") == [*frames, rest[1]]
    assert of("file") == [("layers.py", 160, 3), rest[0], ("train.py", 7, 1), rest[1]]
    assert of("function") == [("linear", 160, 3), rest[0], ("main", 7, 1), rest[1]]


def test_without_ranks_the_innermost_frame_counts() -> None:
    snap = snapshot()
    zero = bytes(snap.native.n_strings)
    assert groups(snap, 2, "file", zero, zero)[:2] == [("before", 1005, 2), ("torch.cpp", 160, 3)]


def test_the_lowest_rank_wins_then_the_innermost() -> None:
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
    assert label(everything, ranks(snap, at__empty=3, linear=2, main=2)) == 1
    # A file of rank 0 is the user's, whatever the function is called.
    assert label(ranks(snap, torch_cpp=2), ranks(snap, at__empty=2, linear=2)) == 1
    # In any other file the function's rank counts.
    assert label(ranks(snap, torch_cpp=2), zero) == 0
    assert native.label_frame(0, zero, zero) == _core.ABSENT_ID


def test_top_cuts_the_list_but_not_the_sums() -> None:
    snap = snapshot()
    zero = bytes(snap.native.n_strings)
    rows, total, whole, count = snap.replay().measure().native.groups(4, "stack", zero, zero, 2)
    assert [r[1] for r in rows] == [1005, 100]
    assert (total, whole, count) == (5, 1181, 7)


def test_the_start() -> None:
    snap = snapshot()
    zero = bytes(snap.native.n_strings)
    for by in _timeline.BY:
        assert groups(snap, -1, by, zero, zero) == [("before", 1005, 2)]


def test_equal_groups_come_in_the_order_of_their_keys() -> None:
    builder = SnapshotBuilder()
    for i in range(50):
        builder.alloc(i, 10, frames=[(f"f{i}", "a.py", i)])
    snap = mr.open(build.dump(builder.build()))
    zero = bytes(snap.native.n_strings)
    assert [g[0] for g in groups(snap, 49, "function", zero, zero)] == [f"f{i}" for i in range(50)]


def test_a_function_in_one_stack_twice_counts_once() -> None:
    builder = SnapshotBuilder().alloc(1, 10, frames=[LAYER, LAYER, MAIN])
    snap = mr.open(build.dump(builder.build()))
    zero = bytes(snap.native.n_strings)
    assert groups(snap, 0, "function", zero, zero) == [("linear", 10, 1)]


def test_what_is_refused() -> None:
    snap = snapshot()
    native = snap.replay().measure().native
    zero = bytes(snap.native.n_strings)
    with pytest.raises(ValueError, match="one byte a string"):
        native.groups(0, "file", zero[:-1], zero, 0)
    with pytest.raises(ValueError, match="one byte a string"):
        native.label_frame(0, zero, b"")
    with pytest.raises(KeyError):
        native.groups(0, "colour", zero, zero, 0)
    with pytest.raises(IndexError):
        native.groups(99, "file", zero, zero, 0)
    for stack in (-1, snap.native.n_stacks, 2**70):
        with pytest.raises(IndexError):
            native.label_frame(stack, zero, zero)
