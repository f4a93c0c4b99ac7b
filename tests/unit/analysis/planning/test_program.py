"""Tests of analysis/planning/program.py: levels of changed programs, by brute force."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.planning.program import Again, Effect, Program, resized
from memreplay.engine.query._vectors import vector, zeros
from tests.unit.analysis.advising import programs
from tests.unit.analysis.advising.programs import MIB
from tests.unit.analysis.planning.training import Block, models, recording_of, trained


@given(blocks=models(3), seed=st.integers(0, 1 << 32))
def test_peak_matches_a_list_of_events(blocks: list[Block], seed: int) -> None:
    rng = random.Random(seed)
    recording = recording_of(trained(blocks).snapshot())
    lives = recording.lives
    program = recording.program()
    sizes, ends = lives.bytes.tolist(), lives.end.tolist()
    calls: list[tuple[int, int, int, int]] = []  # event, order, owner, bytes
    chosen = zeros(len(lives), "?")
    for row in range(len(lives)):
        chosen[row] = rng.random() < 0.3
    factor = rng.choice((0, 0.25, 0.5))
    program = program.with_effect(resized(lives, chosen, factor))
    for row in chosen.rows():
        sizes[row] = max(int(sizes[row] * factor), 1) if factor else 0
    ended = [row for row in range(len(lives)) if rng.random() < 0.2 and lives.age()[row] > 1]
    until = [lives.start[row + 1] for row in ended]
    program = program.with_effect(Effect(ended=vector(ended), ends=vector(until)))
    for row, at in zip(ended, until, strict=True):
        ends[row] = at
    rows = sorted(rng.choices(range(len(lives)), k=4))
    when = sorted(rng.randrange(1, lives.events) for _ in range(8))
    owner = [len(lives) + n for n in (0, 1, 0, 2, 3, 1, 3, 2)]
    makes = [1, 1, 0, 1, 1, 0, 0, 0]
    again = Again(vector(when), vector(owner), vector(makes), vector(rows))
    program = program.with_effect(Effect(again=again))
    for order, (event, one, make) in enumerate(zip(when, owner, makes, strict=True)):
        like = rows[one - len(lives)]
        calls.append((event, order, one, sizes[like] if make else -sizes[like]))

    now = high = recording.replay.measure("requested").start_bytes
    for event in range(lives.events):
        for place, end in enumerate(ended):
            if ends[end] == event and until[place] == event < lives.end[end]:
                now -= sizes[end]
        for _, _, _, change in (one for one in calls if one[0] == event):
            now += change
            high = max(high, now)
        for row in range(len(lives)):
            if lives.start[row] == event:
                now += sizes[row]
            if lives.end[row] == event and ends[row] == event:
                now -= sizes[row]
        high = max(high, now)
        assert program.levels()[event] == now
    assert program.peak() == high
    edit = program.edit(recording.replay)
    assert recording.replay.simulate(edit=edit).outcome.requested_peak_bytes == high


def test_failed_request_counts_for_the_peak() -> None:
    made = programs.Program()
    made.alloc(20 * MIB, programs.FORWARD)
    made.made.oom(40 * MIB)
    lives = made.lives()
    program = Program(lives, vector([1]), vector([40 * MIB]))
    assert program.peak() == 60 * MIB
    half = program.with_effect(resized(lives, lives.bytes > 0, 0.5))
    assert half.peak() == 50 * MIB


def test_two_effects_on_a_row_leave_the_smaller_size() -> None:
    made = programs.Program()
    made.alloc(20 * MIB, programs.FORWARD)
    lives = made.lives()
    program = Program(lives, vector([]), vector([]))
    for factor in (0.25, 0.5):
        program = program.with_effect(resized(lives, lives.bytes > 0, factor))
    assert program.peak() == 5 * MIB
