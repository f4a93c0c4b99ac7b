"""Tests of analysis/advising/lives.py: the peak without some allocations, by brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.advising.lives import FOREACH, LINEAR, LOSS, SOFTMAX, Lives
from memreplay.analysis.groups.grouping import Grouper
from memreplay.engine.query._vectors import constant, vector
from memreplay.engine.simulate._simulating import Simulation
from tests import build
from tests.allocator_strategies import SETTINGS, Recording, recordings
from tests.simulated import rules
from tests.unit.analysis.advising import programs
from tests.unit.analysis.advising.programs import MIB, Program


@given(recording=recordings(max_devices=1), seed=st.integers(0, 1 << 32))
def test_saved_bytes_match_brute_force(recording: Recording, seed: int) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    if not snap.devices:
        return
    replay = snap.replay(snap.devices[0])
    lives = Lives(replay, Grouper(snap, "category"))
    rng = np.random.default_rng(seed)
    chosen = vector((rng.random(len(lives)) < 0.5).data)
    after = lives.start + vector(rng.integers(0, 20, len(lives)).data)
    for begin in (lives.start, after):
        left = replay.measure("requested").series.copy()
        for i in chosen.rows():
            left[begin[i] : lives.end[i]] -= lives.bytes[i]
        high = max([replay.measure("requested").start_bytes, *left.tolist()])
        found = lives.saved(chosen, after=None if begin is lives.start else after)
        assert found == max(0, lives.peak_bytes - high)
    event = int(rng.integers(0, max(1, replay.events)))
    held = sum(lives.bytes[i] for i in chosen.rows() if lives.start[i] <= event < lives.end[i])
    assert lives.held(chosen, event) == held
    assert lives.count_after(event) == sum(start > event for start in lives.start)


@given(recording=recordings(max_devices=1, settings="default"))
def test_recomputed_bytes_match_a_simulation(recording: Recording) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    if not snap.devices:
        return
    replay = snap.replay(snap.devices[0])
    lives = Lives(replay, Grouper(snap, "category"))
    no_limit = {**rules(SETTINGS["default"]), "total": -1}
    found = Simulation(
        replay.blocks,
        replay.holding,
        edited=replay.measure("requested").native,
        twice=True,
        **no_limit,
    )
    everything = constant(1, len(lives), "?")
    left = max(0, lives.peak_bytes - found.requested_peak[0])
    assert lives.recomputed(everything, (), (), 0) == left


def test_failed_request_that_fits_is_part_of_the_new_peak() -> None:
    made = Program()
    kept = [made.alloc(20 * MIB, programs.FORWARD) for _ in range(4)]
    made.made.oom(40 * MIB)
    made.free(*kept)
    lives = made.lives()
    chosen = constant(1, len(lives), "?")
    assert lives.peak_bytes == 80 * MIB
    # Two allocations are live at a time. The newest one stays until the error frees it.
    assert lives.recomputed(chosen, (4,), (40 * MIB,), 59 * MIB) == 40 * MIB
    assert lives.recomputed(chosen, (4,), (40 * MIB,), 60 * MIB) == 20 * MIB


def test_functions_in_a_stack_show_which_operations_ran() -> None:
    made = Program()
    stacks = {
        0: programs.FORWARD,
        LINEAR: programs.LINEAR,
        SOFTMAX: programs.SOFTMAX,
        LOSS: programs.LOSS,
        FOREACH: programs.FOREACH,
    }
    for stack in stacks.values():
        made.alloc(MIB, stack)
    for function, bit in {
        "at::_ops::_softmax::call(at::Tensor const&)": SOFTMAX,
        "at::_ops::softmax_int::call(at::Tensor const&)": SOFTMAX,
        "at::_ops::log_softmax_int::call(at::Tensor const&)": LOSS,
        "torch::autograd::generated::SoftmaxBackward0::apply()": SOFTMAX,
        "torch::autograd::generated::LogSoftmaxBackward0::apply()": LOSS,
        "torch::autograd::generated::NllLossBackward0::apply()": LOSS,
        "at::_ops::_foreach_sqrt::call(at::TensorList)": FOREACH,
        "at::_ops::linear::call(at::Tensor const&)": LINEAR,
    }.items():
        made.alloc(MIB, [(function, "??", 0)])
        stacks[len(stacks) + 1000] = []
        assert made.lives().code()[-1] == bit, function
    assert made.lives().code()[:5].tolist() == [0, LINEAR, SOFTMAX, LOSS, FOREACH]
