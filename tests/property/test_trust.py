"""Recordings with something missing: what is called exact and trusted is right all the same."""

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

# A recording from the program's start hides none of these.
ALWAYS_FOUND = [name for name in DAMAGE if name not in ("pause", "stopped")]


@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(ALWAYS_FOUND),
    where=st.integers(0, 2**32 - 1),
)
def test_what_is_missing_from_a_recording_of_all_is_noticed(
    seed: int, kind: str, where: int
) -> None:
    whole = simulated(program(seed))
    kept = DAMAGE[kind](whole.snapshot["device_traces"][0], random.Random(where))
    if kept is None:
        return
    found = judge(whole, kept)
    # In summary and with --strict; a measure alone looks at what it needs.
    assert not found.wrong or not found.trusted, found
    if kind.startswith("segment"):
        assert not found.wrong, found


def stacks_from_before(snapshot: Any, first: int) -> tuple[list[bool], list[bool]]:
    """Whether each block and each segment that is there at the end, and that no event from `first`
    on made, has a stack. Of expandable segments nobody knows what was there when."""
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
def test_nothing_is_said_against_a_whole_recording(
    late: bool, seed: int, kind: str, where: int
) -> None:
    whole = simulated(program(seed, late=late))
    kept = NO_DAMAGE[kind](whole.snapshot["device_traces"][0], random.Random(where))
    if kept is None:
        return
    found = judge(whole, kept)
    assert not found.wrong, found
    # A short trace may look as if requests had been skipped, and one that was begun anew as if the
    # ring had been full: what the first recording saw has stacks.
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
def test_nothing_is_said_against_a_range(seed: int, late: bool, data: st.DataObject) -> None:
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
def test_a_gap_is_mostly_noticed(kind: str) -> None:
    """Segments that come with all that is in them while nothing is recorded tell nothing."""
    found = count((simulated(program(seed)) for seed in range(150)), DAMAGE[kind])
    assert found.made == 150
    assert found.wrong_trusted <= 6
    assert found.doubted >= 140


def test_the_count_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--programs", "3", "--only", "alloc lost", "--show"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["damage", "made", "wrong,", "trusted", "wrong,", "exact", "doubted"]
    assert lines[-1].split()[:5] == ["alloc", "lost", "3", "0", "0"]
