"""Every row of a diff matches both snapshots, even if wrappers are inserted into random stacks."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.comparing.sides import Scope
from memreplay.commands.diff.find import diff_report
from memreplay.commands.diff.result import DeviceDiff
from tests import build
from tests.build import FrameSpec, SnapshotBuilder
from tests.oracle_diff import Place, check_lines, lines_held

SITE = "/env/lib/python3.12/site-packages/"
# Frames that occur between the user's functions: from PyTorch, Python, decorators and C.
WRAPPERS: tuple[FrameSpec, ...] = (
    ("decorate_autocast", SITE + "torch/amp/autocast_mode.py", 44),
    ("checkpoint", SITE + "torch/utils/checkpoint.py", 496),
    ("_fn", SITE + "torch/_dynamo/eval_frame.py", 745),
    ("__call__", SITE + "wrapt/wrappers.py", 669),
    ("inner", "/usr/lib/python3.12/contextlib.py", 81),
    ("at::autocast::WrapFunction_<>::call(at::Tensor const&)", "??", 0),
    ("_PyEval_EvalFrameDefault", "/usr/bin/python3.12", 4711),
    ("__libc_start_main_impl", "/lib/x86_64-linux-gnu/libc.so.6", 171584),
    ("_start", "/usr/bin/python3.12", 4224),
)
OWN: FrameSpec = ("timed", "/home/a/gpt/timing.py", 9)  # a user-defined decorator
UNWIND: FrameSpec = ("torch::unwind::unwind()", "??", 0)
OPERATORS: tuple[FrameSpec, ...] = (
    ("at::_ops::linear::call(at::Tensor const&)", "??", 0),
    ("at::_ops::mul_Tensor::call(at::Tensor const&)", "??", 0),
)
USER: tuple[FrameSpec, ...] = tuple(
    (function, "/home/a/gpt/model.py", line)
    for function, lines in (("attend", (10, 11, 14)), ("forward", (30, 31)), ("step", (50, 52)))
    for line in lines
)


class Held(NamedTuple):
    """A stack: its operator and the user's lines, and its bytes in each snapshot."""

    operator: int
    lines: tuple[int, ...]
    base: int
    new: int


held = st.builds(
    Held,
    st.integers(0, len(OPERATORS) - 1),
    st.lists(st.integers(0, len(USER) - 1), min_size=1, max_size=4).map(tuple),
    st.integers(0, 5),
    st.integers(0, 5),
)
programs = st.lists(held, min_size=1, max_size=8, unique_by=lambda one: (one.operator, one.lines))


def plain(one: Held) -> list[FrameSpec]:
    return [UNWIND, OPERATORS[one.operator], *(USER[i] for i in one.lines)]


def wrapped(frames: list[FrameSpec], draw: st.DataObject, *, own: bool) -> list[FrameSpec]:
    """Insert wrappers between the frames; user-defined wrappers only after the first line."""
    found = frames[:2]
    for i, frame in enumerate(frames[2:]):
        found += draw.draw(st.lists(st.sampled_from(WRAPPERS), max_size=2))
        if own and i and draw.draw(st.booleans()):
            found.append(OWN)
        found.append(frame)
    return found + draw.draw(st.lists(st.sampled_from(WRAPPERS), max_size=2))


def snapshot(rows: list[tuple[list[FrameSpec], int]]) -> mr.Snapshot:
    builder = SnapshotBuilder()
    for i, (frames, n_bytes) in enumerate(rows):
        if n_bytes:
            builder.alloc((i + 1) << 30, n_bytes * 512, frames=frames)
    return mr.open(build.dump(builder.alloc(1 << 50, 512, frames=[USER[0]]).build()))


def of(base: mr.Snapshot, new: mr.Snapshot, *, all_frames: bool = False) -> DeviceDiff:
    found = diff_report(base, new, top=0, unchanged=True, all_frames=all_frames)
    (device,) = found.devices
    return device


def truth(program: list[Held], side: int) -> Counter[Place]:
    found = Counter({USER[0]: 512})
    for one in program:
        n_bytes = (one.new if side else one.base) * 512
        if n_bytes:
            found[USER[one.lines[0]]] += n_bytes
    return found


@pytest.mark.parametrize("all_frames", [False, True])
@given(programs, st.data())
def test_every_row_matches_both_snapshots(
    all_frames: bool, program: list[Held], draw: st.DataObject
) -> None:
    base = snapshot([(wrapped(plain(one), draw, own=True), one.base) for one in program])
    new = snapshot([(wrapped(plain(one), draw, own=True), one.new) for one in program])
    found = of(base, new, all_frames=all_frames)
    ours, theirs = truth(program, 0), truth(program, 1)
    assert lines_held(base, 0, Scope("requested")) == ours
    assert lines_held(new, 0, Scope("requested")) == theirs
    assert check_lines(found.rows, ours, theirs) == []
    assert sum(row.base_bytes for row in found.rows) == ours.total()
    assert sum(row.new_bytes for row in found.rows) == theirs.total()
    # No row is named after plumbing or shows a line that its stacks don't have in common.
    for row in found.rows:
        assert row.frames[row.user[0]] in {mr.Frame(*frame) for frame in USER}
        assert row.label.startswith(row.frames[row.user[0]].function)


@given(programs, st.data())
def test_added_wrappers_do_not_change_the_diff(program: list[Held], draw: st.DataObject) -> None:
    base = snapshot([(plain(one), one.base) for one in program])
    new = snapshot([(wrapped(plain(one), draw, own=True), one.base) for one in program])
    for before, after in ((base, new), (new, base)):
        found = of(before, after)
        assert {row.status for row in found.rows} == {"same"}
        assert all(row.base_groups == row.new_groups for row in found.rows)
