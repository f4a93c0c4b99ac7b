"""matching: stacks that are the same code, though lines, roots or names have changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.matching import Match, Stack, align_paths, match_stacks, same_functions
from memreplay.model import Frame


def stack(*frames: str) -> Stack:
    """Frames of `file:function:line`, innermost first."""
    found = []
    for frame in frames:
        file, function, line = frame.rsplit(":", 2)
        found.append(Frame(function, file, int(line)))
    return tuple(found)


def pairs(matches: list[Match]) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    return {(tuple(sorted(one.base)), tuple(sorted(one.new))) for one in matches}


A = stack("/r/m.py:linear:3", "/r/m.py:forward:10", "/r/t.py:main:1")
B = stack("/r/m.py:gelu:4", "/r/m.py:forward:11", "/r/t.py:main:1")
C = stack("/r/o.py:step:7", "/r/t.py:main:2")


def test_equal_stacks() -> None:
    found = match_stacks([A, B, ()], [B, (), A])
    assert pairs(found) == {((0,), (2,)), ((1,), (0,)), ((2,), (1,))}


@pytest.mark.parametrize("shift", [1, 1000])
def test_shifted_lines(shift: int) -> None:
    def moved(one: Stack) -> Stack:
        return tuple(replace(frame, line=frame.line + shift) for frame in one)

    assert pairs(match_stacks([A, B, C], [moved(A), moved(B), moved(C)])) == {
        ((i,), (i,)) for i in range(3)
    }
    alone = match_stacks([A], [moved(A)], exact=True)
    assert pairs(alone) == {((0,), ()), ((), (0,))}


def test_several_of_the_same_functions_are_told_apart_by_their_lines() -> None:
    old = [stack("m.py:f:10", "t.py:main:1"), stack("m.py:f:20", "t.py:main:1")]
    new = [stack("m.py:f:23", "t.py:main:1"), stack("m.py:f:12", "t.py:main:1")]
    assert pairs(match_stacks(old, new)) == {((0,), (1,)), ((1,), (0,))}
    # One stayed where it was; the other two are what is left.
    new = [stack("m.py:f:20", "t.py:main:1"), stack("m.py:f:99", "t.py:main:1")]
    assert pairs(match_stacks(old, new)) == {((0,), (1,)), ((1,), (0,))}
    # Nothing says which of the two is which.
    new = [stack("m.py:f:33", "t.py:main:1")]
    assert pairs(match_stacks(old, new)) == {((0, 1), (0,))}


def test_another_root() -> None:
    def elsewhere(one: Stack) -> Stack:
        return tuple(replace(f, file=f.file.replace("/r/", "/work/run7/")) for f in one)

    found = match_stacks([A, B, C], [elsewhere(A), elsewhere(B), elsewhere(C)])
    assert pairs(found) == {((i,), (i,)) for i in range(3)}


def test_a_renamed_function_is_one_row_where_it_is_called() -> None:
    renamed = stack("/r/m.py:linear:3", "/r/m.py:run:10", "/r/t.py:main:1")
    found = match_stacks([A, C], [renamed, C])
    assert pairs(found) == {((0,), (0,)), ((1,), (1,))}
    (one,) = (one for one in found if one.base == [0])
    # What both know of it.
    assert [frame.function for frame in one.frames] == ["linear", "main"]


def test_a_function_split_off_counts_where_it_was() -> None:
    helper = stack("/r/m.py:linear:3", "/r/m.py:helper:40", "/r/m.py:forward:12", "/r/t.py:main:1")
    found = match_stacks([A], [A, helper])
    assert pairs(found) == {((0,), (0, 1))}


def test_what_is_new_or_gone_stays_so() -> None:
    other = stack("/r/x.py:g:1", "/r/y.py:h:1")
    found = match_stacks([A, other], [A, C])
    assert pairs(found) == {((0,), (0,)), ((1,), ()), ((), (1,))}
    by_side = {(bool(one.base), bool(one.new)): one.frames for one in found}
    assert by_side[True, False] == other
    assert by_side[False, True] == C


def test_roots_are_voted_on() -> None:
    base = {"/a/x/m.py", "/a/x/n.py", "/a/y/m.py", "/a/same.py"}
    new = {"/b/x/m.py", "/b/x/n.py", "/b/y/m.py", "/a/same.py"}
    assert align_paths(base, new) == {
        "/b/x/m.py": "/a/x/m.py",
        "/b/x/n.py": "/a/x/n.py",
        "/b/y/m.py": "/a/y/m.py",
    }
    assert align_paths({"/r/a.py", "??"}, {"/r/b.py", ""}) == {}
    old = {"/env/lib/python3.10/site-packages/torch/nn/modules/linear.py", "/me/linear.py"}
    now = {"/opt/lib/python3.12/site-packages/torch/nn/modules/linear.py"}
    (path,) = now
    assert align_paths(old, now)[path].startswith("/env")


frames = st.builds(
    Frame,
    st.sampled_from(["f", "g", "h"]),
    st.sampled_from(["/a/m.py", "/b/m.py", "/a/n.py", "", "??"]),
    st.integers(0, 3),
)
stacks = st.lists(st.lists(frames, max_size=4).map(tuple), max_size=8, unique=True)


repeated = st.lists(st.lists(frames, max_size=4).map(tuple), max_size=8)


@given(repeated, repeated, st.booleans())
def test_every_stack_is_in_one_match(base: list[Stack], new: list[Stack], exact: bool) -> None:
    found = match_stacks(base, new, exact=exact)
    assert sorted(i for one in found for i in one.base) == list(range(len(base)))
    assert sorted(i for one in found for i in one.new) == list(range(len(new)))
    assert all(one.base or one.new for one in found)


@given(stacks)
def test_with_itself_each_matches_itself(base: list[Stack]) -> None:
    assert pairs(match_stacks(base, base)) == {((i,), (i,)) for i in range(len(base))}


def test_stacks_of_the_same_functions() -> None:
    base: list[Stack] = [(Frame("f", "/a/m.py", 1), Frame("g", "/a/m.py", 2)), ()]
    new: list[Stack] = [
        (Frame("f", "/b/m.py", 7), Frame("g", "/b/m.py", 8)),
        (Frame("h", "/b/m.py", 7), Frame("g", "/b/m.py", 8)),
        (),
    ]
    assert same_functions(base, new) == [True, False, True]
    assert same_functions([], new) == [False] * 3
