"""Tests of analysis/comparing/code.py: choosing the frames of a stack that are compared."""

from __future__ import annotations

from memreplay.analysis.comparing.code import Code, One, Stacks, operator_below
from memreplay.snapshot.model import Frame

LINEAR = Frame("at::_ops::linear::call(at::Tensor const&)", "??", 0)
ADDMM = Frame("at::_ops::addmm::redispatch(at::Tensor const&)", "??", 0)
TORCH = Frame("linear", "/v/lib/python3.12/site-packages/torch/nn/functional.py", 7)
PLACE = Frame("forward", "/a/m.py", 10)
LAMBDA = Frame("f.<locals>.<lambda>", "/a/m.py", 12)
MAIN = Frame("main", "/a/t.py", 1)
STACK = (ADDMM, ADDMM, LINEAR, TORCH, PLACE, LAMBDA, MAIN)


def both(base: Stacks, new: Stacks) -> tuple[Code, One, One]:
    code = Code(base, new)
    return code, code.base[0], code.new[0]


def test_operators_below_user_code_are_found() -> None:
    assert operator_below(STACK, (4, 5, 6)) == "linear"
    assert operator_below(STACK[4:], (0, 1, 2)) == ""
    assert operator_below((ADDMM, TORCH), ()) == "addmm"
    code, one, _ = both(Stacks([STACK]), Stacks([STACK]))
    assert code.ran(one) == ("addmm", "linear")
    assert code.operator(one) == "linear"
    # Operators that call the user's code, rather than the reverse, don't count.
    code, one, _ = both(Stacks([(PLACE, LINEAR, MAIN)]), Stacks([(PLACE,)]))
    assert code.ran(one) == ()


def test_call_site_is_the_innermost_user_frame() -> None:
    code, one, other = both(Stacks([STACK]), Stacks([(TORCH, LINEAR)]))
    assert [code.stack(one)[i] for i in one.places] == [PLACE]
    assert [code.stack(other)[i] for i in other.places] == [TORCH]
    code, one, _ = both(Stacks([(TORCH, LINEAR)], places=[(1,)], users=[()]), Stacks([()]))
    assert [code.stack(one)[i] for i in one.places] == [LINEAR]


def test_frames_missing_from_one_recording_are_ignored() -> None:
    wrapper = Frame("timed", "/a/w.py", 3)
    base, new = (PLACE, wrapper, LAMBDA, MAIN), (PLACE, MAIN)
    code, one, other = both(Stacks([base]), Stacks([new]))
    assert code.known(one) == code.known(other) == other.user
    assert code.functions(one) == code.functions(other)
    # If the other side recorded the wrapper anywhere, the wrapper counts.
    code, one, other = both(Stacks([base]), Stacks([new], seen=[wrapper]))
    assert len(code.known(one)) == 3


def test_line_missing_from_one_recording_matches_any_line_of_its_function() -> None:
    other_line = Frame("main", "/a/t.py", 5)
    seen = [Frame("main", "/a/t.py", line) for line in (30, 40)]
    code, one, other = both(
        Stacks([(PLACE, MAIN)], n_bytes=[1], seen=seen),
        Stacks([(PLACE, other_line)], n_bytes=[2], seen=seen),
    )
    assert code.known(one) != code.known(other)
    assert code.way(one) == code.way(other)
    code, one, other = both(
        Stacks([(PLACE, MAIN)], n_bytes=[1], seen=[*seen, other_line]),
        Stacks([(PLACE, other_line)], n_bytes=[2], seen=[*seen, MAIN]),
    )
    assert code.way(one) != code.way(other)


def test_callers_recorded_on_only_one_side_are_ignored() -> None:
    helper = Frame("helper", "/a/m.py", 70)
    deeper = Frame("forward", "/a/m.py", 11)
    code, one, other = both(
        Stacks([(helper, deeper, PLACE, MAIN)]), Stacks([(PLACE, MAIN), (deeper, MAIN)])
    )
    assert code.callers(one) == code.callers(other) == other.user
