"""moved: buffers that `.to()` moves, by the lines of each version of PyTorch."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.analysis.groups.grouping import Grouper
from tests import build
from tests.build import SnapshotBuilder

FILE = "/v/lib/python3.12/site-packages/torch/nn/modules/module.py"
# The lines of `_apply` that call it for modules below, move parameters, gradients, and buffers.
VERSIONS = {
    "2.0": (797, 820, 834, 844),
    "2.6": (903, 930, 968, 991),
    "2.7": (928, 955, 997, 1020),
    "2.12": (934, 965, 1009, 1035),
    "2.15": (933, 966, 1010, 1036),
}


def categories(*stacks: list[tuple[str, int]], file: str = FILE) -> list[str]:
    """Of one allocation each, from the functions and lines of module.py, innermost first."""
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
def test_lines(version: str) -> None:
    call, parameter, gradient, buffer = VERSIONS[version]
    stacks = [
        [("convert", 1300), ("_apply", line), ("_apply", call), ("to", 1310)]
        for line in (parameter, gradient, buffer)
    ]
    assert categories(*stacks) == ["parameters", "parameters", "buffers"]
    # The outermost module's own, too.
    own = [("convert", 1300), ("_apply", buffer), ("to", 1310)]
    assert categories(own, stacks[0]) == ["buffers", "parameters"]


def test_names_with_their_class_and_windows() -> None:
    stacks = [
        [("Module.to.<locals>.convert", 1300), ("Module._apply", line), ("Module._apply", 903)]
        for line in (930, 991)
    ]
    assert categories(*stacks) == ["parameters", "buffers"]


def test_without_the_call_nothing_is_claimed() -> None:
    stacks = [[("convert", 1300), ("_apply", line), ("to", 1310)] for line in (930, 991)]
    assert categories(*stacks) == ["parameters", "parameters"]


def test_other_files_have_other_lines() -> None:
    stacks = [[("f", 1), ("_apply", line), ("_apply", 903)] for line in (930, 991)]
    assert categories(*stacks, file="/home/a/module.py") == ["unknown", "unknown"]
