"""ends: memory that an optimizer's step frees again isn't optimizer state."""

from __future__ import annotations

from array import array
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.categories.ends import IN_STEP
from memreplay.analysis.categories.rules import Rule
from memreplay.analysis.groups.grouping import Evidence, Grouper
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.oracle_ends import in_step

TORCH = "/v/lib/python3.12/site-packages/torch"
MAIN = ("main", "/home/a/train.py", 9)
STEP = [("step", f"{TORCH}/optim/adamw.py", 243), MAIN]
STATE = [("_init_group", f"{TORCH}/optim/adamw.py", 175), *STEP]
SQRT = [("_multi_tensor_adamw", f"{TORCH}/optim/adamw.py", 600), *STEP]
FORWARD = [("forward", "/home/a/model.py", 3), MAIN]
PLAIN = [MAIN]
CLOSURE = [FORWARD[0], ("closure", "/home/a/train.py", 5), *STEP]


def passing(snapshot: Any, kept: Any = "all") -> list[bool]:
    """Return, for each alloc event, whether its block is freed in the same step."""
    snap = mr.open(build.dump(snapshot))
    usage = snap.replay(0).measure("requested")
    grouper = Grouper(
        snap, "category", (Rule("passing", ends=f"^{IN_STEP}$"),), evidence=Evidence(kept=kept)
    )
    keys = grouper.keys(usage)
    events = [i for i, e in enumerate(oracle.trace_of(snapshot, 0)) if e["action"] == "alloc"]
    numbers, _ = keys.numbers(array("q", events), array("q"))
    names = memoryview(keys.names())
    return [grouper.known.rules.name(names[one]) == "passing" for one in memoryview(numbers)]


def test_state_survives_the_step_and_temporaries_do_not() -> None:
    made = SnapshotBuilder().alloc(0x1000, 512, frames=STATE).alloc(0x2000, 512, frames=SQRT)
    made.free(0x2000, 512, frames=STEP).alloc(0x3000, 512, frames=FORWARD)
    assert passing(made.build()) == [False, True, False]


def test_memory_freed_in_the_next_step_survived_its_step() -> None:
    made = SnapshotBuilder().alloc(0x1000, 512, frames=SQRT).alloc(0x3000, 512, frames=FORWARD)
    made.alloc(0x2000, 512, frames=SQRT).free(0x1000, 512, frames=STEP)
    assert passing(made.build()) == [False, False, False]


def test_state_freed_with_its_optimizer_is_state() -> None:
    made = SnapshotBuilder().alloc(0x1000, 512, frames=STATE).alloc(0x2000, 512, frames=SQRT)
    made.free(0x2000, 512, frames=STEP).free(0x1000, 512, frames=PLAIN)
    assert passing(made.build()) == [False, True]
    made.alloc(0x3000, 512, frames=FORWARD)
    assert passing(made.build()) == [False, True, False]


def test_unfreed_temporary_is_recognized_if_the_recording_ends_in_a_step() -> None:
    made = SnapshotBuilder().alloc(0x2000, 512, frames=SQRT).free(0x2000, 512, frames=STEP)
    made.alloc(0x3000, 512, frames=FORWARD).alloc(0x1000, 512, frames=STATE)
    made.alloc(0x2000, 512, frames=SQRT)
    assert passing(made.build()) == [True, False, False, True]


def test_allocation_that_outlives_its_step_is_state() -> None:
    made = SnapshotBuilder().alloc(0x2000, 512, frames=SQRT).free(0x2000, 512, frames=STEP)
    made.alloc(0x1000, 512, frames=SQRT).alloc(0x3000, 512, frames=FORWARD)
    assert passing(made.build()) == [True, False, False]


def test_frees_with_alloc_stacks_are_in_the_step() -> None:
    # The step lasts until another function allocates, because frees don't show where a step ends.
    made = SnapshotBuilder().alloc(0x1000, 512, frames=STATE).alloc(0x2000, 512, frames=SQRT)
    made.free(0x2000, 512, frames=SQRT).alloc(0x3000, 512, frames=FORWARD)
    made.alloc(0x2000, 512, frames=SQRT)
    assert passing(made.build()) == [False, True, False, True]


def test_nothing_is_temporary_if_frames_are_ignored() -> None:
    made = SnapshotBuilder().alloc(0x2000, 512, frames=SQRT).free(0x2000, 512, frames=STEP)
    assert passing(made.build(), "python") == [True]
    assert passing(made.build(), "none") == [False]


def test_callbacks_of_a_step_belong_to_the_program() -> None:
    """For example, LBFGS calls closures, and Lightning's trainer does all its work in a closure."""
    made = SnapshotBuilder().alloc(0x1000, 512, frames=CLOSURE).alloc(0x2000, 512, frames=STATE)
    made.alloc(0x3000, 512, frames=SQRT).free(0x3000, 512, frames=STEP)
    made.alloc(0x4000, 512, frames=CLOSURE).free(0x4000, 512, frames=CLOSURE)
    assert passing(made.build()) == [False, False, True, False]
    snap = mr.open(build.dump(made.build()))
    usage = snap.replay(0).measure("requested")
    found = Grouper(snap, "category").groups(usage, 5, 0)[0]
    assert {group.label: group.bytes for group in found} == {
        "activations": 1024,
        "optimizer state": 512,
    }
    found = Grouper(snap, "phase").groups(usage, 5, 0)[0]
    assert {group.label: group.bytes for group in found} == {"forward": 1024, "optimizer": 512}


def test_nothing_is_temporary_without_an_optimizer() -> None:
    made = SnapshotBuilder().alloc(0x2000, 512, frames=FORWARD).free(0x2000, 512, frames=FORWARD)
    assert passing(made.build()) == [False]


@st.composite
def recordings(draw: st.DrawFn) -> Any:
    """Draw steps among other allocations; some blocks are allocated twice."""
    own = draw(st.booleans())
    made = SnapshotBuilder()
    live: dict[int, Any] = {}
    for _ in range(draw(st.integers(1, 40))):
        address = 0x1000 * draw(st.integers(1, 8))
        frames = draw(st.sampled_from((STATE, SQRT, SQRT, FORWARD, CLOSURE, [])))
        if draw(st.booleans()) and (address not in live or draw(st.integers(0, 9)) == 0):
            live[address] = frames
            made.alloc(address, 512, frames=frames)
        else:
            by = live.pop(address, PLAIN)
            made.free(address, 512, frames=draw(st.sampled_from((STEP, PLAIN))) if own else by)
    return made.build()


@given(recordings())
def test_temporaries_match_the_oracle(snapshot: Any) -> None:
    expected = in_step(snapshot, 0)
    events = [i for i, e in enumerate(oracle.trace_of(snapshot, 0)) if e["action"] == "alloc"]
    assert passing(snapshot) == [event in expected for event in events]
