"""moved: finding the buffers that `.to()` moves by the line numbers of each PyTorch version."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from tests import build
from tests.build import SnapshotBuilder

FILE = "/v/lib/python3.12/site-packages/torch/nn/modules/module.py"
# The lines in `_apply` that recurse, and those that move parameters, gradients and buffers.
VERSIONS = {
    "2.0": (797, 820, 834, 844),
    "2.6": (903, 930, 968, 991),
    "2.7": (928, 955, 997, 1020),
    "2.12": (934, 965, 1009, 1035),
    "2.15": (933, 966, 1010, 1036),
}


def categories(*stacks: list[tuple[str, int]], file: str = FILE) -> list[str]:
    """Return the category of one allocation per stack. A stack lists functions and lines in
    module.py, innermost first.
    """
    made = SnapshotBuilder()
    for at, stack in enumerate(stacks):
        frames = [(name, file, line) for name, line in stack]
        made.alloc(0x1000 * (at + 1), 2**at * 512, frames=[*frames, ("main", "/home/a/t.py", 3)])
    snap = mr.open(build.dump(made.build()))
    usage = snap.replay(0).measure("requested")
    found = Grouper(snap, "category").groups(usage, len(stacks) - 1, 0)[0]
    of = {
        bit: group.label
        for group in found
        for bit in range(len(stacks))
        if group.bytes // 512 >> bit & 1
    }
    return [of[bit] for bit in range(len(stacks))]


@pytest.mark.parametrize("version", VERSIONS)
def test_line_of_apply_tells_buffers_from_parameters(version: str) -> None:
    call, parameter, gradient, buffer = VERSIONS[version]
    stacks = [
        [("convert", 1300), ("_apply", line), ("_apply", call), ("to", 1310)]
        for line in (parameter, gradient, buffer)
    ]
    assert categories(*stacks) == ["parameters", "parameters", "buffers"]
    # The outermost module's own buffers are recognized too.
    own = [("convert", 1300), ("_apply", buffer), ("to", 1310)]
    assert categories(own, stacks[0]) == ["buffers", "parameters"]


def test_function_names_may_include_classes() -> None:
    stacks = [
        [("Module.to.<locals>.convert", 1300), ("Module._apply", line), ("Module._apply", 903)]
        for line in (930, 991)
    ]
    assert categories(*stacks) == ["parameters", "buffers"]


def test_buffers_are_not_recognized_without_the_recursive_call() -> None:
    stacks = [[("convert", 1300), ("_apply", line), ("to", 1310)] for line in (930, 991)]
    assert categories(*stacks) == ["parameters", "parameters"]


def test_lines_in_other_files_are_ignored() -> None:
    stacks = [[("f", 1), ("_apply", line), ("_apply", 903)] for line in (930, 991)]
    assert categories(*stacks, file="/home/a/module.py") == ["unknown", "unknown"]
