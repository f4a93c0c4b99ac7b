"""If a recording lacks events, results that are called exact and trusted are still right."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.trust.trust import REMARKS, device_verdict, verdict
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.damage import DAMAGE, NO_DAMAGE, SEGMENTS, count, judge, main, program, simulated

# In a recording from the program's start, the loss of any of these events is noticed.
ALWAYS_FOUND = [name for name in DAMAGE if name not in ("pause", "stopped")]


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(ALWAYS_FOUND),
    where=st.integers(0, 2**32 - 1),
)
def test_missing_events_are_noticed(seed: int, kind: str, where: int) -> None:
    whole = simulated(program(seed))
    kept = DAMAGE[kind](whole.snapshot["device_traces"][0], random.Random(where))
    if kept is None:
        return
    found = judge(whole, kept)
    # This is the verdict of summary and --strict; a single measure checks only the data that it
    # needs.
    assert not found.wrong or not found.trusted, found
    if kind.startswith("segment"):
        assert not found.wrong, found


def stacks_from_before(snapshot: Any, first: int) -> tuple[list[bool], list[bool]]:
    """Return whether every block and segment that exists at the end and was allocated before event
    `first` has a stack. Expandable segments have no known history.
    """
    made = {
        (event["action"], event["addr"])
        for event in snapshot["device_traces"][0][first:]
        if "addr" in event
    }
    blocks, segments = [], []
    for segment in snapshot["segments"]:
        blocks += [
            bool(block["frames"])
            for block in segment["blocks"]
            if block["state"] != "inactive" and ("alloc", block["address"]) not in made
        ]
        if not segment["is_expandable"] and not made & {
            (action, segment["address"]) for action in SEGMENTS
        }:
            segments.append(bool(segment["frames"]))
    return blocks, segments


def most(those: list[bool]) -> bool:
    return sum(those) * 2 > len(those)


@pytest.mark.parametrize("late", [False, True])
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(list(NO_DAMAGE)),
    where=st.integers(0, 2**32 - 1),
)
def test_complete_recording_is_trusted(late: bool, seed: int, kind: str, where: int) -> None:
    whole = simulated(program(seed, late=late))
    kept = NO_DAMAGE[kind](whole.snapshot["device_traces"][0], random.Random(where))
    if kept is None:
        return
    found = judge(whole, kept)
    assert not found.wrong, found
    # A short trace may look as if free requests had been skipped. A restarted one may look as if
    # the ring buffer had been full, because memory from the first recording has stacks.
    blocks, segments = stacks_from_before(whole.snapshot, kept[0])
    if most(blocks or segments):
        assert "ring_overflow_likely" in found.reasons, found
    allowed = REMARKS | {"skip_actions"}
    if any(blocks + segments):
        allowed |= {"ring_overflow_likely"}
    trace = whole.snapshot["device_traces"][0]
    if not {trace[at]["action"] for at in kept} & {"alloc", "free_requested"}:
        allowed |= {"no_allocations"}
    assert set(found.reasons) <= allowed, found


@given(seed=st.integers(0, 2**32 - 1), late=st.booleans(), data=st.data())
def test_any_range_is_trusted(seed: int, late: bool, data: st.DataObject) -> None:
    whole = simulated(program(seed, late=late))
    events = len(whole.snapshot["device_traces"][0])
    start = data.draw(st.integers(0, max(0, events - 1)))
    stop = data.draw(st.integers(start + 1, max(start + 1, events)))
    snap = mr.open(build.dump(whole.snapshot), start=start, stop=stop)
    replay = snap.replay(0)
    found = device_verdict(snap, replay)
    assert set(found.reasons) <= REMARKS | {"skip_actions"}, found
    for name in MEASURES:
        usage = replay.measure(name)
        if verdict(snap, usage).exact:
            expected = whole.truth[name][start : min(stop, events) + 1]
            assert [usage.start_bytes, *usage.series.tolist()] == expected
    if "segment_events_unseen" in found.reasons:
        assert (start, stop >= events) == (0, True)


@pytest.mark.parametrize("kind", ["pause", "stopped"])
def test_most_gaps_are_noticed(kind: str) -> None:
    """Some gaps aren't noticed, because a segment that is allocated and freed within a gap leaves
    no evidence.
    """
    found = count((simulated(program(seed)) for seed in range(150)), DAMAGE[kind])
    assert found.made == 150
    assert found.wrong_trusted <= 6
    assert found.doubted >= 140


def test_damage_command_prints_a_table_of_counts(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--programs", "3", "--only", "alloc lost", "--show"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["damage", "made", "wrong,", "trusted", "wrong,", "exact", "doubted"]
    assert lines[-1].split()[:5] == ["alloc", "lost", "3", "0", "0"]
