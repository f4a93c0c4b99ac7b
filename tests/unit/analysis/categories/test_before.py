"""before: the likely origins of carried-over memory match examples and the slow oracle."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.categories.before import likely, marks_of
from memreplay.analysis.categories.origins import (
    BEFORE,
    LIKELY_ACTIVATION,
    LIKELY_GRADIENT,
    LIKELY_PARAMETER,
    LIKELY_STATE,
    ORIGINS,
    Origins,
)
from memreplay.analysis.groups.grouping import Grouper
from memreplay.engine.query._before import (
    AT_EXIT,
    AT_ZERO_GRAD,
    IN_BACKWARD,
    IN_OPTIMIZER,
    OF_BACKWARD,
    ONE_STATE,
    TWO_STATES,
)
from tests import build, oracle, oracle_before
from tests.build import FrameSpec, Snapshot, SnapshotBuilder

TORCH = "/v/lib/python3.12/site-packages/torch"
MAIN = ("main", "/home/a/train.py", 9)
FORWARD = [("forward", f"{TORCH}/nn/modules/linear.py", 134), MAIN]
ENGINE = [
    (
        "torch::autograd::Engine::evaluate_function(std::shared_ptr<GraphTask>&)",
        f"{TORCH}/lib/libtorch_cpu.so",
        0,
    )
]
ADAM = [
    ("_multi_tensor_adam", f"{TORCH}/optim/adam.py", 5),
    ("step", f"{TORCH}/optim/adam.py", 1),
    MAIN,
]
SGD = [("_multi_tensor_sgd", f"{TORCH}/optim/sgd.py", 5), MAIN]
OWN_STEP = [("step", "/home/a/my_optim.py", 5), MAIN]
ZERO = [("zero_grad", f"{TORCH}/optim/optimizer.py", 1000), MAIN]
EXIT = [("__exit__", f"{TORCH}/amp/autocast_mode.py", 371), MAIN]
WEIGHTS, BIAS = 65536, 512


class Recording:
    """A builder of events and carried-over blocks. If `python` is set, autograd's events have no
    stacks.
    """

    def __init__(self, *, python: bool = False) -> None:
        self.made = SnapshotBuilder()
        self.backward: list[FrameSpec] = [] if python else ENGINE
        self.next = 0x7000_0000_0000
        self.stays: list[tuple[int, int]] = []

    def place(self) -> int:
        self.next += 0x10_0000
        return self.next

    def before(self, n_bytes: int, count: int = 1) -> list[tuple[int, int]]:
        """Add carried-over blocks."""
        found = [(self.place(), n_bytes) for _ in range(count)]
        self.stays += found
        return found

    def alloc(self, n_bytes: int, frames: list[FrameSpec]) -> tuple[int, int]:
        block = self.place(), n_bytes
        self.made.alloc(*block, frames=frames)
        self.stays.append(block)
        return block

    def free(self, block: tuple[int, int], frames: list[FrameSpec]) -> None:
        self.made.free(*block, frames=frames)
        self.stays.remove(block)

    def forward(self) -> None:
        self.free(self.alloc(100, FORWARD), [MAIN])

    def pass_back(self, sizes: list[int]) -> list[tuple[int, int]]:
        """Record a backward pass that leaves gradients of these sizes."""
        passing = self.alloc(300, self.backward)
        found = [self.alloc(size, self.backward) for size in sizes]
        self.free(passing, self.backward)
        return found

    def step(self, frames: list[FrameSpec]) -> None:
        self.free(self.alloc(100, frames), frames)

    def train(self, sizes: list[int], frames: list[FrameSpec] | None = None) -> None:
        """Record one step of training, forward to zero_grad."""
        self.forward()
        gradients = self.pass_back(sizes)
        if frames is not None:
            self.step(frames)
        for one in gradients:
            self.free(one, ZERO)

    def build(self) -> Snapshot:
        self.made.segments.clear()
        for address, size in self.stays:
            room = (size + build.ROUND - 1) // build.ROUND * build.ROUND
            self.made.segment(address, room, blocks=[self.made.block(address, room, size)])
        return self.made.build()


def told(snapshot: Any) -> Counter[tuple[int, str | None]]:
    """Count the (size, origin) pairs of carried-over memory without a stack."""
    snap = mr.open(build.dump(snapshot))
    replay = snap.replay(0)
    found = likely(snap, replay, Origins(snap).only_python)
    if found is None:
        return Counter()
    sizes = np.asarray(replay.carried("size")).tolist()
    rows = zip(sizes, memoryview(found).tolist(), strict=True)
    return Counter((size, ORIGINS[number]) for size, number in rows if number)


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("frames, states", [(ADAM, 2), (SGD, 1), (None, 0), (OWN_STEP, 0)])
def test_number_of_states_follows_from_the_optimizers_name(
    frames: list[FrameSpec] | None, states: int, python: bool
) -> None:
    made = Recording(python=python)
    made.before(WEIGHTS, 9)
    made.before(BIAS, 9)
    made.train([WEIGHTS] * 3 + [BIAS] * 3, frames)
    expected = Counter[tuple[int, str | None]]()
    for size in (WEIGHTS, BIAS):
        expected[size, LIKELY_PARAMETER] = 3
        expected[size, LIKELY_STATE] = 3 * states
        expected[size, BEFORE] = 6 - 3 * states
    assert told(made.build()) == +expected


def test_parameters_without_gradients_are_unknown() -> None:
    made = Recording()
    made.before(WEIGHTS, 2)
    made.before(4 * WEIGHTS, 5)
    made.train([WEIGHTS])
    assert told(made.build()) == {
        (WEIGHTS, LIKELY_PARAMETER): 1,
        (WEIGHTS, BEFORE): 1,
        (4 * WEIGHTS, BEFORE): 5,
    }


def test_gradients_without_equally_large_blocks_identify_nothing() -> None:
    made = Recording()
    made.before(WEIGHTS, 2)
    made.train([WEIGHTS, 2 * WEIGHTS])
    assert told(made.build()) == {(WEIGHTS, BEFORE): 2}


def test_states_allocated_in_the_recording_are_not_carried_over() -> None:
    made = Recording()
    made.before(WEIGHTS, 3)  # a parameter and two copies
    made.alloc(WEIGHTS, ADAM)
    made.train([WEIGHTS], ADAM)
    assert told(made.build()) == {(WEIGHTS, LIKELY_PARAMETER): 1, (WEIGHTS, BEFORE): 2}


def test_step_counters_are_states() -> None:
    made = Recording()
    made.before(WEIGHTS, 12)
    made.before(4, 5)
    made.train([WEIGHTS] * 4)
    assert told(made.build()) == {
        (WEIGHTS, LIKELY_PARAMETER): 4,
        (WEIGHTS, LIKELY_STATE): 8,
        (4, LIKELY_STATE): 4,
        (4, BEFORE): 1,
    }


def test_only_the_backward_pass_with_the_most_gradients_counts() -> None:
    made = Recording()
    made.before(WEIGHTS, 4)
    made.train([WEIGHTS] * 3)
    made.train([WEIGHTS])
    made.forward()
    assert told(made.build()) == {(WEIGHTS, LIKELY_PARAMETER): 3, (WEIGHTS, BEFORE): 1}


def test_parameters_as_small_as_step_counters_are_ignored() -> None:
    made = Recording()
    made.before(WEIGHTS, 9)
    made.before(4, 3 * 3 + 6)  # three sets of three blocks, plus a step counter per parameter
    made.train([WEIGHTS] * 3 + [4] * 3)
    assert told(made.build()) == {
        (WEIGHTS, LIKELY_PARAMETER): 3,
        (WEIGHTS, LIKELY_STATE): 6,
        (4, LIKELY_PARAMETER): 3,
        (4, LIKELY_STATE): 6 + 6,
    }
    made.before(4, 9)
    assert told(made.build())[WEIGHTS, BEFORE] == 6


def test_code_that_frees_a_block_identifies_it() -> None:
    made = Recording()
    gradient, saved, loss = made.before(700)[0], made.before(800)[0], made.before(900)[0]
    made.free(gradient, ZERO)
    made.free(loss, FORWARD)
    made.forward()
    made.pass_back([])
    made.free(saved, ENGINE)
    assert told(made.build()) == {
        (700, LIKELY_GRADIENT): 1,
        (800, LIKELY_ACTIVATION): 1,
        (900, BEFORE): 1,
    }


def test_block_freed_by_a_partial_backward_pass_is_unknown() -> None:
    made = Recording()
    (block,) = made.before(800)
    made.pass_back([])
    made.free(block, ENGINE)
    made.forward()
    assert told(made.build()) == {(800, BEFORE): 1}


def test_step_that_allocates_two_sets_of_blocks_creates_optimizer_states() -> None:
    made = Recording()
    made.before(WEIGHTS, 2)
    old = made.before(WEIGHTS, 5)
    made.forward()
    made.pass_back([WEIGHTS] * 2)
    for one in old:
        made.free(one, OWN_STEP)
    assert told(made.build()) == {
        (WEIGHTS, LIKELY_PARAMETER): 2,
        (WEIGHTS, LIKELY_STATE): 4,
        (WEIGHTS, BEFORE): 1,
    }


def test_step_that_allocates_one_set_of_blocks_may_create_parameters() -> None:
    made = Recording()
    made.before(WEIGHTS, 2)
    old = made.before(WEIGHTS, 2)
    made.forward()
    made.pass_back([WEIGHTS] * 2)
    for one in old:
        made.free(one, OWN_STEP)
    assert told(made.build()) == {(WEIGHTS, BEFORE): 4}


def test_unfinished_backward_pass_counts_only_if_all_its_gradients_match() -> None:
    made = Recording()
    made.before(WEIGHTS, 3)
    made.before(2 * WEIGHTS, 2)
    made.forward()
    made.pass_back([WEIGHTS])
    assert told(made.build())[WEIGHTS, LIKELY_PARAMETER] == 1
    made.pass_back([2 * WEIGHTS])
    assert LIKELY_PARAMETER not in {origin for _, origin in told(made.build())}
    made.forward()
    assert told(made.build())[2 * WEIGHTS, LIKELY_PARAMETER] == 1


def test_sizes_of_a_partial_first_pass_are_not_used() -> None:
    made = Recording()
    made.before(WEIGHTS, 3)
    made.pass_back([WEIGHTS])
    made.forward()
    assert told(made.build()) == {(WEIGHTS, BEFORE): 3}
    made.pass_back([])
    made.forward()
    assert told(made.build()) == {(WEIGHTS, LIKELY_PARAMETER): 1, (WEIGHTS, BEFORE): 2}


def test_sizes_of_a_pass_that_runs_out_of_memory_are_not_used() -> None:
    made = Recording()
    made.before(WEIGHTS, 1)
    made.forward()
    made.pass_back([WEIGHTS])
    assert told(made.build())[WEIGHTS, LIKELY_PARAMETER] == 1
    made.made.oom(1 << 30)
    assert told(made.build()) == {(WEIGHTS, BEFORE): 1}


def test_cached_autocast_casts_identify_parameters() -> None:
    made = Recording()
    made.before(WEIGHTS, 3)
    made.before(2 * WEIGHTS, 1)
    casts = [made.alloc(WEIGHTS // 2, FORWARD) for _ in range(3)]
    for one in casts:
        made.free(one, EXIT)
    assert told(made.build()) == {(WEIGHTS, LIKELY_PARAMETER): 3, (2 * WEIGHTS, BEFORE): 1}
    made.before(4 * WEIGHTS, 1)  # now the casts cover less than half of the bytes
    assert LIKELY_PARAMETER not in {origin for _, origin in told(made.build())}


def test_frees_without_stacks_identify_nothing() -> None:
    made = Recording(python=True)
    made.before(WEIGHTS, 1)
    (gone,) = made.before(700)
    made.free(gone, [])
    made.train([WEIGHTS])
    for event in made.made.traces[0]:
        if event["action"] != "alloc":
            event["frames"] = []
    made.forward()
    assert told(made.build()) == {
        (WEIGHTS, BEFORE): 1,
        (700, BEFORE): 1,
    }


def test_free_does_not_end_a_gradient_if_it_has_its_allocs_stack() -> None:
    made = Recording()
    made.before(WEIGHTS, 3)
    made.train([WEIGHTS], ADAM)
    stacks = {}
    for event in made.made.traces[0]:
        if event["action"] == "alloc":
            stacks[event["addr"]] = event["frames"]
        event["frames"] = stacks[event["addr"]]
    # The gradient would count as freed at the next forward allocation, but there isn't one.
    assert told(made.build()) == {(WEIGHTS, LIKELY_PARAMETER): 1, (WEIGHTS, LIKELY_STATE): 2}


def test_origins_of_blocks_are_unknown_without_stacks() -> None:
    made = Recording()
    made.made.stacks = False
    made.before(WEIGHTS, 3)
    made.train([WEIGHTS])
    assert told(made.build()) == {}


def test_groups_by_category_show_likely_origins() -> None:
    made = Recording()
    made.before(WEIGHTS, 4)
    made.train([WEIGHTS], ADAM)
    snap = mr.open(build.dump(made.build()))
    usage = snap.replay(0).measure("requested")
    groups, _, _ = Grouper(snap, "category").groups(usage, -1, 0)
    assert {group.label: (group.bytes, group.count) for group in groups} == {
        "optimizer state (likely)": (2 * WEIGHTS, 2),
        "parameters (likely)": (WEIGHTS, 1),
        "before the recording: parameters, optimizer state, buffers": (WEIGHTS, 1),
    }
    phases, _, _ = Grouper(snap, "phase").groups(usage, -1, 0)
    assert [(group.label, group.count) for group in phases] == [("before the recording", 4)]


KINDS: tuple[list[FrameSpec], ...] = (
    FORWARD,
    ENGINE,
    [],
    ADAM,
    SGD,
    OWN_STEP,
    ZERO,
    EXIT,
    [("apply", f"{TORCH}/autograd/function.py", 600)],
    [("apply", f"{TORCH}/autograd/function.py", 600), MAIN],
)


@st.composite
def recordings(draw: st.DrawFn) -> Any:
    """Draw training steps, with other work in between."""
    kinds = KINDS
    if draw(st.booleans()):
        kinds = tuple(one for one in KINDS if one is not ENGINE)
    made = Recording(python=kinds is not KINDS)
    sizes = draw(st.lists(st.sampled_from((4, 512, 1024, 2048)), min_size=1, max_size=5))
    old: list[tuple[int, int]] = []
    for size in sizes:
        old += made.before(size, draw(st.integers(0, 4)))
    live: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(1, 12))):
        what = draw(st.integers(0, 6))
        if what < 2:
            live += made.pass_back(sizes)
        elif what == 2:
            size = draw(st.sampled_from((4, 512, 1024)))
            live.append(made.alloc(size, draw(st.sampled_from(kinds))))
        elif what == 3 and (old or live):
            frames = draw(st.sampled_from(kinds))
            those = draw(st.sampled_from([one for one in (old, live) if one]))
            for _ in range(draw(st.integers(1, len(those)))):
                made.free(those.pop(), frames)
        elif what == 4:
            made.step(draw(st.sampled_from(kinds)))
        elif what == 5 and live and draw(st.booleans()):
            made.made.alloc(*live[0], frames=draw(st.sampled_from(kinds)))
        elif what == 6 and draw(st.integers(0, 5)) == 0:
            made.made.oom(1 << 30)
        else:
            made.forward()
    return made.build()


@given(recordings())
def test_origins_match_the_oracle(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    found = oracle_before.likely(snapshot, 0, only_python=Origins(snap).only_python)
    if not any(event.get("frames") for event in oracle.trace_of(snapshot, 0)):
        found = []
    assert told(snapshot) == Counter((one.size, origin) for one, origin in found)


@pytest.mark.parametrize(
    "file, function, marks",
    [
        (f"{TORCH}/lib/libtorch_cpu.so", ENGINE[0][0], IN_BACKWARD),
        (f"{TORCH}/_tensor.py", "backward", IN_BACKWARD),
        (f"{TORCH}/_tensor.py", "Tensor.backward", IN_BACKWARD),
        (f"{TORCH}/autograd/__init__.py", "backward", IN_BACKWARD),
        (f"{TORCH}/autograd/__init__.py", "grad", IN_BACKWARD),
        (f"{TORCH}/autograd/graph.py", "_engine_run_backward", IN_BACKWARD),
        (f"{TORCH}/autograd/function.py", "apply", OF_BACKWARD),
        (f"{TORCH}/autograd/function.py", "BackwardCFunction.apply", OF_BACKWARD),
        (
            f"{TORCH}/utils/checkpoint.py",
            "_checkpoint_hook.__init__.<locals>.unpack_hook",
            OF_BACKWARD,
        ),
        (f"{TORCH}/nn/modules/module.py", "Module.zero_grad", AT_ZERO_GRAD),
        (f"{TORCH}/optim/optimizer.py", "zero_grad", AT_ZERO_GRAD),
        (f"{TORCH}/optim/adamw.py", "_single_tensor_adamw", IN_OPTIMIZER | TWO_STATES),
        (f"{TORCH}/optim/radam.py", "step", IN_OPTIMIZER | TWO_STATES),
        (f"{TORCH}/optim/rprop.py", "step", IN_OPTIMIZER | TWO_STATES),
        (f"{TORCH}/optim/sgd.py", "sgd", IN_OPTIMIZER | ONE_STATE),
        (f"{TORCH}/optim/_adafactor.py", "step", IN_OPTIMIZER),
        (
            f"{TORCH}/optim/optimizer.py",
            "Optimizer.profile_hook_step.<locals>.wrapper",
            IN_OPTIMIZER,
        ),
        ("/home/a/optimizers.py", "Lion.step", IN_OPTIMIZER),
        ("/home/a/AdamW.py", "step", TWO_STATES),
        (f"{TORCH}/amp/autocast_mode.py", "__exit__", AT_EXIT),
        (f"{TORCH}/autograd/grad_mode.py", "__exit__", 0),
        (f"{TORCH}/optim/lr_scheduler.py", "step", 0),
        (f"{TORCH}/optim/optimizer.py", "profile_hook_step", 0),
        ("/home/adam/train.py", "step", 0),
        ("/home/a/sgd.py", "step", 0),
        ("", "", 0),
    ],
)
def test_optimizer_names_match_pytorch(file: str, function: str, marks: int) -> None:
    assert marks_of(file, function) == marks
