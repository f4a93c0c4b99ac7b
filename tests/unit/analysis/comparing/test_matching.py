"""matching: finding stacks of the same code even if lines, roots or names have changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memreplay.analysis.comparing.code import Stack, Stacks
from memreplay.analysis.comparing.matching import Match, match_stacks, same_functions
from memreplay.snapshot.model import Frame


def stack(*frames: str) -> Stack:
    """Return the frames for `file:function:line` strings, innermost first."""
    found = []
    for frame in frames:
        file, function, line = frame.rsplit(":", 2)
        found.append(Frame(function, file, int(line)))
    return tuple(found)


Sized = dict[Stack, int]


def changes(base: Sized, new: Sized, kinds: tuple[list[str], list[str]] | None = None) -> list[int]:
    """Return the byte difference of each changed match, sorted."""
    ours, theirs = list(base.values()), list(new.values())
    of = kinds or (None, None)
    found = match_stacks(
        Stacks(list(base), n_bytes=ours, kinds=of[0]),
        Stacks(list(new), n_bytes=theirs, kinds=of[1]),
    )
    sums = [sum(theirs[i] for i in m.new) - sum(ours[i] for i in m.base) for m in found]
    return sorted(
        change for change, m in zip(sums, found, strict=True) if change or not (m.base and m.new)
    )


def pairs(matches: list[Match]) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    return {(tuple(sorted(one.base)), tuple(sorted(one.new))) for one in matches}


A = stack("/r/m.py:linear:3", "/r/m.py:forward:10", "/r/t.py:main:1")
B = stack("/r/m.py:gelu:4", "/r/m.py:forward:11", "/r/t.py:main:1")
C = stack("/r/o.py:step:7", "/r/t.py:main:2")


def test_equal_stacks_match() -> None:
    found = match_stacks([A, B, ()], [B, (), A])
    assert pairs(found) == {((0,), (2,)), ((1,), (0,)), ((2,), (1,))}


@pytest.mark.parametrize("shift", [1, 1000])
def test_stacks_match_if_lines_have_shifted(shift: int) -> None:
    def moved(one: Stack) -> Stack:
        return tuple(replace(frame, line=frame.line + shift) for frame in one)

    assert pairs(match_stacks([A, B, C], [moved(A), moved(B), moved(C)])) == {
        ((i,), (i,)) for i in range(3)
    }
    alone = match_stacks([A], [moved(A)], exact=True)
    assert pairs(alone) == {((0,), ()), ((), (0,))}


def test_stacks_of_the_same_functions_are_distinguished_by_line() -> None:
    old = [stack("m.py:f:10", "t.py:main:1"), stack("m.py:f:20", "t.py:main:1")]
    new = [stack("m.py:f:23", "t.py:main:1"), stack("m.py:f:12", "t.py:main:1")]
    assert pairs(match_stacks(old, new)) == {((0,), (1,)), ((1,), (0,))}
    # One line stayed, so the code didn't move, and the other two lines differ.
    new = [stack("m.py:f:20", "t.py:main:1"), stack("m.py:f:99", "t.py:main:1")]
    assert pairs(match_stacks(old, new)) == {((0,), ()), ((1,), (0,)), ((), (1,))}
    # Either line may have become the new one.
    new = [stack("m.py:f:33", "t.py:main:1")]
    assert pairs(match_stacks(old, new)) == {((0, 1), (0,))}


MAIN = "t.py:main:1"


def lines(*sizes: tuple[int, int]) -> Sized:
    """Return stacks in one function, with their sizes, from (line, size) pairs."""
    return {stack(f"m.py:f:{line}", MAIN): size for line, size in sizes}


def test_lines_match_after_moving_to_the_places_of_others() -> None:
    base = lines((10, 100), (20, 200), (30, 300))
    assert changes(base, lines((20, 100), (30, 200), (40, 300))) == []
    assert changes(base, lines((20, 100), (30, 250), (40, 300))) == [50]
    # Moved lines also match if a line was added or removed.
    assert changes(base, lines((20, 100), (30, 200), (40, 300), (50, 7))) == [7]
    assert changes(base, lines((20, 100), (40, 300))) == [-200]
    assert changes(base, lines((15, 7), (20, 100), (30, 200), (40, 300))) == [7]


def test_unmoved_lines_match_first() -> None:
    # Matching by order would report only one line as gone.
    base = lines((10, 100), (20, 200))
    assert changes(base, lines((10, 200), (20, 100), (30, 200))) == [-100, 100, 200]
    assert changes(base, lines((20, 100))) == [-100, -100]
    assert changes(base, lines((20, 200))) == [-100]


def test_very_many_lines_of_a_function_match() -> None:
    many = [(line, line + 1) for line in range(100)]
    assert changes(lines(*many), lines(*((line + 1, size) for line, size in many))) == []
    assert changes(lines(*many), lines(*many[1:], (500, 7))) == [-1, 7]
    assert changes(lines(*many), lines(*many[2:], (500, 7))) == [-2, -1, 7]
    others = [(line + 1000, size) for line, size in many]
    assert changes(lines(*many[:16]), lines(*others[:17])) == [17]
    assert changes(lines(*many[:15]), lines(*others[:16])) == [16]
    assert changes(lines(*many[:15]), lines(*others[1:15])) == [-1]


def test_stacks_of_different_kinds_do_not_match() -> None:
    one = stack("m.py:f:1", MAIN)
    for other in ("b", "a"):
        found = match_stacks(
            Stacks([one, one], kinds=["a", "b"]), Stacks([one, one], kinds=[other, "c"])
        )
        at = "ab".index(other)
        assert pairs(found) == {((at,), (0,)), ((1 - at,), ()), ((), (1,))}
        found = match_stacks(
            Stacks([one, one], kinds=["a", "b"]), Stacks([one, one], kinds=[other, "c"]), exact=True
        )
        assert pairs(found) == {((at,), (0,)), ((1 - at,), ()), ((), (1,))}
    # Stacks of different kinds don't match in the last pass either.
    helper = stack("m.py:helper:9", "m.py:f:1", MAIN)
    assert len(match_stacks(Stacks([one], kinds=["a"]), Stacks([helper], kinds=["b"]))) == 2
    assert len(match_stacks(Stacks([one], kinds=["a"]), Stacks([helper], kinds=["a"]))) == 1
    both = Stacks([one, helper], kinds=["a", "a"])
    found = match_stacks(Stacks([one], kinds=["a"]), both)
    assert pairs(found) == {((0,), (0,)), ((), (1,))}


TORCH = "/v/lib/python3.12/site-packages/torch/utils/_contextlib.py:decorate_context:116"


@pytest.mark.parametrize(
    "frames",
    [
        [TORCH],
        ["m.py:<lambda>:12"],
        ["m.py:f.<locals>.<listcomp>:12"],
        ["m.py:f:12"],
        ["m.py:f:12", "m.py:f:12"],
        ["d.py:wrapper:1"],
    ],
)
def test_stacks_match_if_frames_were_inserted(frames: list[str]) -> None:
    # Decorators, lambdas and recursion don't change which of the user's functions allocates.
    others = {stack("m.py:g:5", frame, MAIN): 1 for frame in frames if "wrapper" not in frame}
    plain = {stack("m.py:f:10", MAIN): 100, **others}
    wrapped = {stack("m.py:f:10", *frames, MAIN): 100, **others}
    assert changes(plain, wrapped) == changes(wrapped, plain) == []
    inside = {stack(*frames, "m.py:f:10", MAIN): 120, **others}
    assert changes(plain, inside) == [20]


def test_different_operators_on_one_line_match() -> None:
    def ran(operator: str) -> Stack:
        return (Frame(f"at::native::{operator}", "??", 0), *stack("m.py:f:10", MAIN))

    other = stack("m.py:g:1", MAIN)
    others = {(Frame(f"at::native::{op}", "??", 0), *other): 1 for op in ("mul", "add", "exp")}
    assert changes({ran("mul"): 10, **others}, {ran("add"): 14, **others}) == [4]
    base, new = [ran("mul")], [ran("add"), ran("exp")]
    matches = match_stacks([*base, *others], [*new, *others])
    (one,) = (one for one in matches if one.base == [0])
    assert (one.new, [frame.function for frame in one.frames]) == ([0, 1], ["f", "main"])


def test_script_without_functions_is_user_code() -> None:
    def ran(operator: str) -> Stack:
        return (Frame(f"at::native::{operator}", "??", 0), *stack("run.py:<module>:10"))

    known = [(Frame(op, "??", 0), *stack("a.py:f:1")) for op in ("at::native::a", "at::native::b")]
    found = match_stacks([ran("a"), *known], [ran("b"), *known])
    assert pairs(found) == {((i,), (i,)) for i in range(3)}


def test_stack_of_plumbing_only_is_not_user_code() -> None:
    ops = [(Frame(op, "??", 0),) for op in ("a", "b", "c", "d")]
    other = stack("m.py:f:1")
    known = [(*op, *other) for op in ops]
    found = match_stacks([ops[0], *known], [ops[1], *known])
    assert ((0,), ()) in pairs(found)
    assert ((), (0,)) in pairs(found)


def test_stacks_match_if_a_function_was_inlined() -> None:
    base = {stack("m.py:h:30", "m.py:f:12", MAIN): 100, **lines((20, 50))}
    assert changes(base, lines((12, 100), (21, 50))) == []


def test_stacks_match_if_the_project_folder_differs() -> None:
    def elsewhere(one: Stack) -> Stack:
        return tuple(replace(f, file=f.file.replace("/r/", "/work/run7/")) for f in one)

    found = match_stacks([A, B, C], [elsewhere(A), elsewhere(B), elsewhere(C)])
    assert pairs(found) == {((i,), (i,)) for i in range(3)}


def test_renamed_function_is_one_row_at_its_call_site() -> None:
    renamed = stack("/r/m.py:linear:3", "/r/m.py:run:10", "/r/t.py:main:1")
    found = match_stacks([A, C], [renamed, C])
    assert pairs(found) == {((0,), (0,)), ((1,), (1,))}
    (one,) = (one for one in found if one.base == [0])
    assert [frame.function for frame in one.frames] == ["linear", "run", "main"]
    # Two functions have the same caller, so the old and new ones can't be matched.
    base = [stack("m.py:a:1", "t.py:main:1"), stack("m.py:b:2", "t.py:main:1")]
    new = [stack("m.py:x:1", "t.py:main:1"), stack("m.py:y:2", "t.py:main:1")]
    (one,) = match_stacks(base, new)
    assert [frame.function for frame in one.frames] == ["main"]


def test_split_off_function_matches_its_origin() -> None:
    helper = stack("/r/m.py:linear:3", "/r/m.py:helper:40", "/r/m.py:forward:12", "/r/t.py:main:1")
    found = match_stacks([A], [A, helper])
    assert pairs(found) == {((0,), (0, 1))}


def test_split_off_code_does_not_match_an_existing_line() -> None:
    # The line still has 60 of its 100 bytes, so both changes are reported.
    base = {stack("m.py:f:10", MAIN): 100}
    helper = stack("m.py:helper:40", "m.py:f:10", MAIN)
    assert changes(base, {stack("m.py:f:10", MAIN): 60, helper: 45}) == [-40, 45]
    # All of the line's memory moved to the helper.
    (one,) = match_stacks(list(base), [helper])
    assert (one.frames, one.below) == (stack("m.py:f:10", MAIN), True)


@pytest.mark.parametrize("wrapped, left", [(30, [-10]), (79, [39]), (80, [-40, 80])])
def test_new_function_matches_if_the_total_is_then_closer_to_the_base(
    wrapped: int, left: list[int]
) -> None:
    # With 80 bytes, the total would be as far off as without the function.
    base = {stack("m.py:f:10", MAIN): 100}
    through = stack("m.py:f:10", "m.py:wrap:5", MAIN)
    assert changes(base, {stack("m.py:f:10", MAIN): 60, through: wrapped}) == left


def test_different_lines_of_unchanged_code_do_not_match() -> None:
    def norm(line: int) -> Stack:
        return stack(f"m.py:norm:{line}", "m.py:block:70", MAIN)

    both = {norm(54): 10, norm(55): 10}
    assert changes({**both, norm(56): 100}, {**both, norm(59): 40}) == [-100, 40]
    # A recorded stack is evidence even if none of its memory is live at this moment.
    seen = [frame for line in (54, 55, 56, 59) for frame in norm(line)]
    ours, theirs = (Stacks([norm(line)], n_bytes=[1], seen=seen) for line in (56, 59))
    assert pairs(match_stacks(ours, theirs)) == {((0,), ()), ((), (0,))}


def test_different_function_in_an_unchanged_file_is_not_a_rename() -> None:
    both = {stack("m.py:f:10", MAIN): 1, stack("m.py:f:20", MAIN): 1}
    base, new = stack("m.py:softmax:40", MAIN), stack("m.py:silu:90", MAIN)
    found = match_stacks(list({**both, base: 1}), list({**both, new: 1}))
    # Only the caller's line is the same, so the match is reported there.
    (one,) = (one for one in found if 2 in one.base)
    assert (one.frames, one.below) == (stack(MAIN), True)
    renamed = stack("m.py:smax:40", MAIN)
    found = match_stacks(list({**both, base: 1}), list({**both, renamed: 1}))
    (one,) = (one for one in found if 2 in one.base)
    assert (one.frames, one.below) == (renamed, False)


def test_autograd_nodes_match_by_name() -> None:
    def node(name: str, operator: str, offset: int) -> Stack:
        return (
            Frame("torch::unwind::unwind()", "??", 0),
            Frame(f"at::_ops::{operator}::call()", "libtorch.so", offset),
            Frame(f"{name}Backward0::apply()", "libtorch.so", offset + 7),
            Frame("start_thread", "libc.so.6", 9),
        )

    def of(*stacks: Stack) -> Stacks:
        return Stacks(stacks, users=[()] * len(stacks), places=[(2,)] * len(stacks))

    base = of(node("Neg", "neg", 1), node("Mul", "mul", 2))
    new = of(node("Mul", "mul", 90), node("Mul", "to", 95), node("ToCopy", "to", 99))
    found = match_stacks(base, new)
    assert pairs(found) == {((0,), ()), ((1,), (0,)), ((), (1,)), ((), (2,))}


def test_common_frames_of_several_stacks_are_shown() -> None:
    def run(line: int) -> Stack:
        return stack("m.py:f:10", "m.py:g:20", f"t.py:run:{line}")

    # run()'s other lines stayed, so either old line may have become line 5.
    seen = [Frame("run", "t.py", line) for line in (30, 40)]
    base = Stacks([run(1), run(2)], n_bytes=[1, 2], seen=seen)
    (one,) = match_stacks(base, Stacks([run(5)], n_bytes=[5], seen=seen))
    assert one.frames == stack("m.py:f:10", "m.py:g:20")
    assert one.user == (0, 1)
    # Here both lines are on both sides, so the callers differ.
    seen += [Frame("run", "t.py", line) for line in (1, 5)]
    found = match_stacks(
        Stacks([run(1)], n_bytes=[1], seen=seen), Stacks([run(5)], n_bytes=[5], seen=seen)
    )
    assert pairs(found) == {((0,), ()), ((), (0,))}


def test_stack_matches_the_same_code_without_its_outer_callers() -> None:
    # For example, a checkpoint recomputes a block in the autograd thread.
    whole = stack("m.py:f:10", "m.py:block:20", "t.py:run:1")
    again = stack("m.py:f:10", "m.py:block:20")
    for base, new in ((whole, again), (again, whole)):
        (one,) = match_stacks([base], [new])
        assert one.frames == new
    # Stacks with different callers don't match.
    assert len(match_stacks([whole], [stack("m.py:f:10", "m.py:g:9"), again, whole])) == 3


def test_unrelated_stacks_stay_unmatched() -> None:
    other = stack("/r/x.py:g:1", "/r/y.py:h:1")
    found = match_stacks([A, other], [A, C])
    assert pairs(found) == {((0,), (0,)), ((1,), ()), ((), (1,))}
    by_side = {(bool(one.base), bool(one.new)): one.frames for one in found}
    assert by_side[True, False] == other
    assert by_side[False, True] == C


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
def test_every_stack_matches_itself(base: list[Stack]) -> None:
    assert pairs(match_stacks(base, base)) == {((i,), (i,)) for i in range(len(base))}


def test_same_functions_ignores_folders_and_lines() -> None:
    base: list[Stack] = [(Frame("f", "/a/m.py", 1), Frame("g", "/a/m.py", 2)), ()]
    new: list[Stack] = [
        (Frame("f", "/b/m.py", 7), Frame("g", "/b/m.py", 8)),
        (Frame("h", "/b/m.py", 7), Frame("g", "/b/m.py", 8)),
        (),
    ]
    assert same_functions(base, new) == [True, False, True]
    assert same_functions([], new) == [False] * 3


@given(st.dictionaries(st.lists(frames, max_size=4).map(tuple), st.integers(0, 9), max_size=8))
def test_shifting_lines_changes_nothing(base: Sized) -> None:
    moved = {tuple(replace(f, line=f.line + 2) for f in one): size for one, size in base.items()}
    assert changes(base, moved) == []


def test_small_line_that_is_gone_does_not_match_large_new_lines() -> None:
    loop = "/r/t.py:main:1"
    base = {stack("/r/log.py:mean:3", loop): 8}
    new = {stack("/r/opt.py:step:82", loop): 1000, stack("/r/opt.py:step:84", loop): 900}
    ours, theirs = (Stacks(list(one), n_bytes=list(one.values())) for one in (base, new))
    found = match_stacks(ours, theirs)
    assert pairs(found) == {((), (0,)), ((), (1,)), ((0,), ())}
    assert not any(one.below for one in found)
    # New code may have been split off from a caller whose size is within a factor of four.
    for held in (475, 1200, 7600):
        ours = Stacks(list(base), n_bytes=[held])
        (one,) = match_stacks(ours, theirs)
        assert (one.base, one.new, one.below) == ([0], [0, 1], True)
    for held in (474, 7601):
        ours = Stacks(list(base), n_bytes=[held])
        assert pairs(match_stacks(ours, theirs)) == pairs(found)
