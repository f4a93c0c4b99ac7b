"""Tests of analysis/planning/modules.py: the cheapest set of modules, found by trying all sets."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.planning import modules
from memreplay.analysis.planning.modules import Peaks, Units, argument
from tests.unit.analysis.planning.training import Block, models, recording_of, trained


@given(blocks=models(4), part=st.floats(0, 1))
def test_no_cheaper_set_of_modules_is_enough(blocks: list[Block], part: float) -> None:
    recording = recording_of(trained(blocks).snapshot())
    assert recording.notes is not None
    units = Units(recording.notes, recording.replay, measured=False)
    program = recording.program()
    peaks = Peaks(program, units.all)
    every = range(len(units.all))
    sets = [some for n in range(len(every) + 1) for some in combinations(every, n)]
    for some in sets:
        applied = program
        for at in some:
            applied = applied.with_effect(units.all[at].effect)
        assert peaks.of(some) == applied.peak()
    low = min(peaks.of(some) for some in sets)
    limit = low + int(part * (program.peak() - low))
    enough = [some for some in sets if peaks.of(some) <= limit]
    found = units.smallest(program, limit)
    if not every or peaks.of(every) > limit:
        assert found is None
        return
    assert found is not None
    assert units.cost(units.all.index(one) for one in found) == min(map(units.cost, enough))


@given(blocks=models(5), part=st.floats(0, 1))
def test_larger_searches_leave_no_module_that_can_be_left_out(
    blocks: list[Block], part: float
) -> None:
    recording = recording_of(trained(blocks).snapshot())
    assert recording.notes is not None
    units = Units(recording.notes, recording.replay, measured=False)
    peaks = Peaks(recording.program(), units.all)
    every = tuple(range(len(units.all)))
    low, high = peaks.of(every), recording.program().peak()
    limit = low + int(part * max(high - low, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(modules, "MOST_EXHAUSTIVE", 0)
        found = units.smallest(recording.program(), limit)
    assert found is not None or not every
    chosen = [units.all.index(one) for one in found or ()]
    assert peaks.of(chosen) <= max(limit, high if not every else 0)
    for at in chosen:
        assert peaks.of([one for one in chosen if one != at]) > limit


@pytest.mark.parametrize(
    "chosen, pattern",
    [
        (range(6), "h.*"),
        (range(3), "h.*[:3]"),
        (range(2, 6), "h.*[2:]"),
        (range(1, 4), "h.*[1:4]"),
        (range(0, 6, 2), "h.*[::2]"),
        (range(1, 6, 2), "h.*[1::2]"),
        ((0, 2), "h.*[:3:2]"),
        ((4,), "h.4"),
        ((0, 1, 5), "h.0,h.1,h.5"),
    ],
)
def test_modules_are_named_by_the_shortest_pattern(chosen: tuple[int, ...], pattern: str) -> None:
    every = [f"h.{at}" for at in range(6)]
    assert argument([every[at] for at in chosen], every) == pattern
    found = argument([*(every[at] for at in chosen), "head"], [*every, "head"])
    assert found == f"{pattern},head"
