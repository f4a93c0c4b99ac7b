"""operators: names of operators and autograd nodes, as a regular expression finds them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.code.operators import backward_of, node_in, operator_in, operator_of
from memreplay.snapshot.model import Frame


def frames(*functions: str) -> tuple[Frame, ...]:
    return tuple(Frame(function, "??", 0) for function in functions)


def test_outermost_operator_names_the_stack() -> None:
    stack = frames(
        "at::_ops::empty_strided::call(long)",
        "at::_ops::mul_Tensor::redispatch(x)",
        "at::_ops::mul_Tensor::call(x)",
        "THPVariable_mul",
    )
    assert operator_of(stack) == "aten::mul_Tensor"


def test_backward_node_is_named() -> None:
    stack = frames(
        "torch::autograd::generated::MulBackward0_apply_functional(x)",
        "torch::autograd::generated::MulBackward0::apply(std::vector<x>&&)",
        "torch::autograd::Node::operator()(x)",
    )
    assert backward_of(stack) == "MulBackward0"


def test_other_stacks_have_no_operator_or_node() -> None:
    stack = frames("forward", "at::empty(long)", "c10::malloc")
    assert operator_of(stack) == backward_of(stack) == ""
    assert operator_of(()) == ""


OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)\b")
NODE = re.compile(r"torch::autograd::(?:generated::)?(\w+)::apply\b")
PARTS = ["at::_ops::", "torch::autograd::", "generated::", "::call", "::redispatch", "::apply"]
PARTS += ["::", ":", "a", "é", "_", "add", "(", " ", "at::_ops::add::call"]


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
def test_names_match_the_regular_expressions(function: str) -> None:
    operator, node = OPERATOR.search(function), NODE.search(function)
    assert operator_in(function) == (operator[1] if operator else "")
    assert node_in(function) == (node[1] if node else "")
