"""Tests of analysis/planning/calls.py: recomputed blocks, compared with training that does it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.planning.calls import Recomputing
from memreplay.analysis.planning.modules import Units
from tests.unit.analysis.planning.training import (
    MIB,
    Block,
    Operation,
    models,
    recording_of,
    trained,
)


def predicted(blocks: list[Block], again: frozenset[int]) -> int:
    recording = recording_of(trained(blocks).snapshot())
    assert recording.notes is not None
    program, recomputing = recording.program(), Recomputing(recording.notes)
    for name, numbers in recording.notes.units().items():
        if int(name.rpartition(".")[2]) in again:
            effect = recomputing.effect(name, recording.notes.calls(numbers))
            if effect is not None:
                program = program.with_effect(effect)
    found = recording.replay.simulate(edit=program.edit(recording.replay))
    assert found.outcome.requested_peak_bytes == program.peak()
    return program.peak()


@given(blocks=models(), seed=st.sets(st.integers(0, 4)))
def test_peak_is_that_of_training_that_recomputes_the_same_blocks(
    blocks: list[Block], seed: set[int]
) -> None:
    again = frozenset(at for at in seed if at < len(blocks))
    assert predicted(blocks, again) == trained(blocks, again).peak


def test_last_operation_with_a_saved_result_ends_the_recomputation() -> None:
    # The second result isn't saved, so only the first operation runs again.
    block = Block((Operation(10 * MIB, saved=True), Operation(30 * MIB, saved=False)), 2 * MIB)
    whole, again = trained([block] * 3), trained([block] * 3, frozenset((0, 1, 2)))
    assert again.peak < whole.peak
    assert predicted([block] * 3, frozenset((0, 1, 2))) == again.peak


def test_each_call_is_found_in_order() -> None:
    blocks = [Block((Operation(MIB, saved=True),), MIB)] * 2
    recording = recording_of(trained(blocks, steps=3).snapshot())
    assert recording.notes is not None
    units = recording.notes.units()
    assert list(units) == ["Net.layers.0", "Net.layers.1"]
    calls = recording.notes.calls(units["Net.layers.1"])
    assert len(calls) == 3
    assert all(one.first <= one.last < one.backward for one in calls)
    assert [one.first for one in calls] == sorted(one.first for one in calls)


def test_blocks_that_are_recomputed_already_are_left_alone() -> None:
    blocks = [Block((Operation(8 * MIB, saved=True),), MIB)] * 2
    recording = recording_of(trained(blocks, frozenset((0,))).snapshot())
    assert recording.notes is not None
    units = Units(recording.notes, recording.replay, measured=False)
    assert [one.name for one in units.all] == ["Net.layers.1"]
