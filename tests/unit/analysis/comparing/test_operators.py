"""Operators that only one of two runs calls explain its higher peak."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.comparing.operators import WORKSPACE, OperatorCause, causes
from tests import build
from tests.build import SnapshotBuilder

MIB = 1 << 20
MAIN = ("main", "/home/me/train.py", 20)
# Frames, innermost first. PyTorch calls an operator, which calls others.
MATH = [
    ("at::_ops::bmm::call(at::Tensor const&)", "??", 0),
    ("at::_ops::_attention_math::redispatch(c10::DispatchKeySet)", "??", 0),
    ("at::_ops::_attention_math::call(at::Tensor const&)", "??", 0),
    ("at::_ops::attention::call(at::Tensor const&)", "??", 0),
    ("forward", "/home/me/train.py", 8),
    MAIN,
]
FLASH = [
    ("at::_ops::empty_like::call(at::Tensor const&)", "??", 0),
    ("at::_ops::_flash::call(at::Tensor const&)", "??", 0),
    ("at::_ops::attention::call(at::Tensor const&)", "??", 0),
    ("forward", "/home/me/train.py", 8),
    MAIN,
]
SOFTMAX = [
    ("at::_ops::_softmax_backward_data::call(at::Tensor const&)", "??", 0),
    ("torch::autograd::generated::SoftmaxBackward0::apply(std::vector<at::Tensor>&&)", "??", 0),
]
LINEAR = [
    ("at::_ops::linear::call(at::Tensor const&)", "??", 0),
    ("forward", "/home/me/train.py", 9),
    MAIN,
]
BLAS = [
    ("at::cuda::getCurrentCUDABlasHandle(bool)", "??", 0),
    ("at::_ops::mm::call(at::Tensor const&)", "??", 0),
    *LINEAR,
]
FILE = "/home/me/train.py"


def snapshot(folder: Path, *blocks: tuple[Any, int], freed: int = 0) -> mr.Snapshot:
    """Return a snapshot with these allocations, in MiB. The first `freed` ones are freed before the
    others are allocated.
    """
    b = SnapshotBuilder()
    for i, (frames, size) in enumerate(blocks):
        if i == freed:
            for j in range(freed):
                b.free((j + 1) << 40, blocks[j][1] * MIB)
        b.alloc((i + 1) << 40, size * MIB, frames=frames)
    path = folder / f"{len(list(folder.iterdir()))}.pickle"
    path.write_bytes(build.dump(b.finish_segments().build()))
    return mr.open(str(path))


def test_operator_and_what_the_other_run_calls_are_named(tmp_path: Path) -> None:
    base = snapshot(tmp_path, (FLASH, 10), (LINEAR, 100))
    new = snapshot(tmp_path, (MATH, 300), (MATH, 200), (LINEAR, 100), (SOFTMAX, 90))
    assert causes(base, new, 0) == (
        # Both call attention, and bmm is only a part of _attention_math.
        OperatorCause("aten::_attention_math", FILE, 8, 500 * MIB, "aten::_flash"),
        OperatorCause("SoftmaxBackward0 (autograd)", "", 0, 90 * MIB, ""),
    )
    assert causes(new, base, 0) == ()


def test_larger_workspaces_are_named(tmp_path: Path) -> None:
    base = snapshot(tmp_path, (BLAS, 8), (LINEAR, 100))
    new = snapshot(tmp_path, (BLAS, 32), (LINEAR, 100))
    assert causes(base, new, 0) == (OperatorCause(WORKSPACE, "", 0, 24 * MIB, ""),)
    # Other operators' memory may be the reason, but it isn't cuBLAS's.
    new = snapshot(tmp_path, (BLAS, 32), (LINEAR, 900))
    assert causes(base, new, 0) == ()


def test_small_parts_are_not_mentioned(tmp_path: Path) -> None:
    base = snapshot(tmp_path, (LINEAR, 100))
    new = snapshot(tmp_path, (LINEAR, 200), (SOFTMAX, 10))
    assert causes(base, new, 0) == ()
    new = snapshot(tmp_path, (LINEAR, 190), (SOFTMAX, 10))
    assert causes(base, new, 0) == (
        OperatorCause("SoftmaxBackward0 (autograd)", "", 0, 10 * MIB, ""),
    )


def test_only_memory_at_the_peak_counts(tmp_path: Path) -> None:
    base = snapshot(tmp_path, (LINEAR, 100))
    new = snapshot(tmp_path, (MATH, 150), (LINEAR, 200), freed=1)
    assert causes(base, new, 0) == ()


def test_recording_without_stacks_has_no_causes(tmp_path: Path) -> None:
    base, new = snapshot(tmp_path, ([], 100)), snapshot(tmp_path, ([], 200))
    assert causes(base, new, 0) == ()


NAMES = [MATH, FLASH, SOFTMAX, LINEAR]
OPERATORS = {
    0: {"aten::attention", "aten::_attention_math", "aten::bmm"},
    1: {"aten::attention", "aten::_flash", "aten::empty_like"},
    2: {"SoftmaxBackward0 (autograd)", "aten::_softmax_backward_data"},
    3: {"aten::linear"},
}
BLOCKS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), min_size=1, max_size=8)


@given(base=BLOCKS, new=BLOCKS)
def test_largest_part_is_that_of_the_operator_with_most_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    base: list[tuple[int, int]],
    new: list[tuple[int, int]],
) -> None:
    """The oracle adds up the bytes of each operator that only the new run calls. Nothing is freed,
    so everything is live at the peak.
    """
    folder = tmp_path_factory.mktemp("snapshots")
    called = set().union(*(OPERATORS[kind] for kind, _ in base))
    held: Counter[str] = Counter()
    for kind, size in new:
        for operator in OPERATORS[kind] - called:
            held[operator] += size
    more = sum(size for _, size in new) - sum(size for _, size in base)
    found = causes(
        snapshot(folder, *((NAMES[kind], size) for kind, size in base)),
        snapshot(folder, *((NAMES[kind], size) for kind, size in new)),
        0,
    )
    most = max(held.values(), default=0)
    if more <= 0 or most < 0.1 * more or not most:
        assert found == ()
    else:
        assert found[0].bytes == most * MIB
        assert held[found[0].operator] == most
        assert sum(one.bytes for one in found) <= sum(size for _, size in new) * MIB
