"""origins: the origins of allocations match the slow oracle and PyTorch's operator names."""

from __future__ import annotations

import re
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.categories.origins import (
    BEFORE,
    CAST,
    EITHER_CAST,
    EXIT,
    LOWER,
    NO_PYTHON,
    ORIGINS,
    WEIGHT_CAST,
)
from memreplay.analysis.categories.rules import DEFAULT_RULES, Rule
from memreplay.analysis.groups.grouping import Grouper
from tests import build, oracle, oracle_groups, oracle_origins
from tests.build import SnapshotBuilder

TORCH = "/v/lib/python3.12/site-packages/torch"
SO = f"{TORCH}/lib/libtorch_cpu.so"
# Stacks as PyTorch 2.15 records them, innermost frame first.
CAST_HERE = "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)"
LINEAR = "at::_ops::linear::call(at::Tensor const&, at::Tensor const&, std::optional<at::Tensor>)"
FORWARD = [("forward", f"{TORCH}/nn/modules/linear.py", 134), ("main", "/home/a/train.py", 9)]
WEIGHT = [("at::native::empty", SO, 7), ("_apply", f"{TORCH}/nn/modules/module.py", 900)]
WEIGHT += [("cuda", f"{TORCH}/nn/modules/module.py", 1050), ("main", "/home/a/train.py", 3)]
ACTIVATION = [("at::native::add", SO, 8), *FORWARD]
PLAIN = [("make", "/home/a/train.py", 5)]
GRADIENT = [("torch::autograd::generated::MmBackward0::apply(int)", SO, 4)]
EXIT_HERE = [("__exit__", f"{TORCH}/amp/autocast_mode.py", 371), ("main", "/home/a/train.py", 11)]


def cast(line: int) -> list[tuple[str, str, int]]:
    return [(CAST_HERE, SO if line else "??", line), (LINEAR, SO, 2), *FORWARD]


def origins(snapshot: Any) -> list[str | None]:
    """Return the origin of each alloc event."""
    snap = mr.open(build.dump(snapshot))
    usage = snap.replay(0).measure("requested")
    texts = [text for text in ORIGINS if text is not None]
    grouper = Grouper(snap, "category", tuple(Rule(text, origin=f"^{text}$") for text in texts))
    keys = grouper.keys(usage)
    events = [i for i, e in enumerate(oracle.trace_of(snapshot, 0)) if e["action"] == "alloc"]
    numbers, _ = keys.numbers(array("q", events), array("q"))
    names = memoryview(keys.names())
    called = [grouper.known.rules.name(names[one]) for one in memoryview(numbers)]
    return [None if one == "unknown" else one for one in called]


def test_cast_has_half_the_bytes_of_its_source() -> None:
    made = SnapshotBuilder()
    made.alloc(0x1000, 4096, frames=WEIGHT).alloc(0x3000, 8192, frames=ACTIVATION)
    made.alloc(0x6000, 2048, frames=cast(0)).alloc(0x7000, 4096, frames=cast(0))
    made.alloc(0x8000, 1024, frames=cast(0))
    assert origins(made.build()) == [None, None, WEIGHT_CAST, None, None]


def test_cast_with_two_possible_sources_is_ambiguous() -> None:
    made = SnapshotBuilder()
    made.alloc(0x1000, 4096, frames=WEIGHT).alloc(0x3000, 4096, frames=ACTIVATION)
    made.alloc(0x6000, 2048, frames=cast(0)).free(0x3000, 4096).alloc(0x7000, 2048, frames=cast(0))
    assert origins(made.build()) == [None, None, EITHER_CAST, WEIGHT_CAST]


def test_ambiguous_casts_follow_the_certain_casts_at_their_call_site() -> None:
    made = SnapshotBuilder()
    made.alloc(0x1000, 4096, frames=WEIGHT).alloc(0x3000, 4096, frames=ACTIVATION)
    made.alloc(0x6000, 2048, frames=cast(10)).alloc(0x7000, 2048, frames=cast(20))
    made.alloc(0x8000, 512, frames=cast(20))
    made.alloc(0x9000, 128, frames=cast(10)).free(0x9000, 128, frames=EXIT_HERE)
    assert origins(made.build())[2:] == [WEIGHT_CAST, None, None, WEIGHT_CAST]


def test_call_site_that_casts_no_weights_casts_activations() -> None:
    made = SnapshotBuilder()
    made.alloc(0x1000, 4096, frames=WEIGHT).alloc(0x3000, 4096, frames=ACTIVATION)
    made.alloc(0x6000, 2048, frames=cast(10)).alloc(0x7000, 2048, frames=cast(20))
    assert origins(made.build())[2:] == [EITHER_CAST, EITHER_CAST]
    made.alloc(0x9000, 128, frames=cast(10)).free(0x9000, 128, frames=EXIT_HERE)
    assert origins(made.build())[2:] == [WEIGHT_CAST, None, WEIGHT_CAST]


def test_carried_over_blocks_are_weights() -> None:
    made = SnapshotBuilder().alloc(0x6000, 2048, frames=cast(0)).free(0x1000, 4096)
    made.alloc(0x7000, 2048, frames=cast(0))
    assert origins(made.build()) == [WEIGHT_CAST, None]


def test_gradients_are_not_sources_of_casts() -> None:
    made = SnapshotBuilder().alloc(0x1000, 4096, frames=WEIGHT)
    made.alloc(0x3000, 4096, frames=GRADIENT).alloc(0x6000, 2048, frames=cast(0))
    assert origins(made.build()) == [None, None, WEIGHT_CAST]


def test_cast_to_full_precision_is_ignored() -> None:
    up = [(CAST_HERE, SO, 3), ("at::_ops::exp::call(at::Tensor const&)", SO, 1), *FORWARD]
    made = SnapshotBuilder().alloc(0x1000, 4096, frames=WEIGHT).alloc(0x6000, 2048, frames=up)
    assert origins(made.build()) == [None, None]


def test_weight_casts_are_found_in_stacks_with_only_python_frames() -> None:
    made = SnapshotBuilder().alloc(0x1000, 512, frames=FORWARD).alloc(0x2000, 512, frames=FORWARD)
    made.alloc(0x3000, 512, frames=[]).free(0x1000, 512, frames=EXIT_HERE)
    assert origins(made.build()) == [WEIGHT_CAST, None, NO_PYTHON]


def test_origins_are_unknown_without_stacks() -> None:
    made = SnapshotBuilder(stacks=False).alloc(0x1000, 512).free(0x1000, 512)
    assert origins(made.build()) == [None]


@st.composite
def recordings(draw: st.DrawFn) -> Any:
    """Draw casts at two call sites, with or without line numbers, along with possible sources."""
    lines = draw(st.sampled_from(((0, 0), (10, 20))))
    kinds = [WEIGHT, ACTIVATION, PLAIN, GRADIENT, cast(lines[0]), cast(lines[1]), []]
    if draw(st.integers(0, 4)) == 0:
        kinds = [FORWARD, PLAIN, []]
    made = SnapshotBuilder()
    live: dict[int, int] = {}
    for _ in range(draw(st.integers(1, 40))):
        address = 0x1000 * draw(st.integers(1, 12))
        what = draw(st.integers(0, 2))
        if what < 2 and (address not in live or draw(st.integers(0, 9)) == 0):
            live[address] = draw(st.sampled_from((512, 1024, 2048)))
            made.alloc(address, live[address], frames=draw(st.sampled_from(kinds)))
        else:
            frames = draw(st.sampled_from((EXIT_HERE, FORWARD)))
            size = live.pop(address, None)
            made.free(address, size or draw(st.sampled_from((1024, 2048))), frames=frames)
    return made.build()


@given(recordings())
def test_origins_match_the_oracle(snapshot: Any) -> None:
    rules = [rule for rule in DEFAULT_RULES if rule.frames is not None]
    groups = oracle_groups.Groups(snapshot, 0, rules)
    expected = oracle_origins.origins(snapshot, 0, groups.category_by_stack)
    assert origins(snapshot) == [expected[event] for event in sorted(expected)]


@pytest.mark.parametrize(
    "pattern, text",
    [
        (CAST, "??:at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)"),
        (CAST, f"{SO}:{CAST_HERE}"),
        (EXIT, f"{TORCH}/amp/autocast_mode.py:__exit__"),
        (EXIT, f"{TORCH}/amp/autocast_mode.py:autocast.__exit__"),
        (EXIT, "??:at::autocast::clear_cache()"),
        *[
            (LOWER, f"??:at::_ops::{name}::call(at::Tensor const&)")
            for name in ("linear", "einsum", "conv2d", "convolution", "matmul", "baddbmm")
        ],
    ],
)
def test_operator_names_match_pytorch(pattern: str, text: str) -> None:
    assert re.search(pattern, text)


@pytest.mark.parametrize("name", ["exp", "layer_norm", "mse_loss", "_to_copy", "add_Tensor"])
def test_other_operators_are_not_autocast_to_half_precision(name: str) -> None:
    assert not re.search(LOWER, f"??:at::_ops::{name}::call(at::Tensor const&)")


def test_label_says_that_memory_is_from_before_the_recording() -> None:
    made = SnapshotBuilder().free(0x1000, 512).build()
    snap = mr.open(build.dump(made))
    groups, _, _ = Grouper(snap, "category").groups(snap.replay(0).measure("requested"), -1, 0)
    assert [group.label for group in groups] == [f"{BEFORE}: parameters, optimizer state, buffers"]
