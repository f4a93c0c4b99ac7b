"""Tests of explore/syncing.py: finding the same moment in another snapshot."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.explore.explored import Explored
from memreplay.explore.syncing import Side, same_moment, syncs
from tests.build import SnapshotBuilder, dump
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def two() -> tuple[Explored, Explored]:
    folder = ROOT / "examples"
    return (
        Explored(mr.open(folder / "recorded_gpt.pkl.gz")),
        Explored(mr.open(folder / "transformer_step.pkl.gz")),
    )


def test_snapshots_with_steps_and_times_sync_by_either_or_by_event(
    two: tuple[Explored, Explored],
) -> None:
    first, second = two
    one, other = first.first_look(0), second.first_look(0)
    assert syncs(first, one, second, other) == ("step", "time", "event")


def test_sync_by_event_stays_within_the_other_recording(two: tuple[Explored, Explored]) -> None:
    first, second = two
    one, other = first.first_look(0), second.first_look(0)
    low, high = second.bounds(0)
    for event in (-1, 0, 1000, 4503):
        assert same_moment(Side(first, one), event, Side(second, other), "event") == event
    one, other = second.first_look(0), first.first_look(0)
    assert same_moment(Side(second, one), high, Side(first, other), "event") == first.bounds(0)[1]
    assert same_moment(Side(second, one), low, Side(first, other), "event") == first.bounds(0)[0]


def test_sync_by_time_counts_from_the_first_event(two: tuple[Explored, Explored]) -> None:
    first, second = two
    one, other = first.first_look(0), second.first_look(0)
    mine, theirs = first.replay(one), second.replay(other)
    assert mine.time_range is not None
    assert theirs.time_range is not None
    for event in range(0, 4500, 250):
        found = same_moment(Side(first, one), event, Side(second, other), "time")
        elapsed = (mine.clock_us(event) or 0) - mine.time_range[0]
        there = theirs.clock_us(found)
        assert there is None or there - theirs.time_range[0] <= elapsed
        if found < second.bounds(0)[1]:
            assert (theirs.clock_us(found + 1) or 0) - theirs.time_range[0] > elapsed
    assert same_moment(Side(first, one), -1, Side(second, other), "time") == -1


def test_sync_by_step_finds_the_same_fraction(two: tuple[Explored, Explored]) -> None:
    first, second = two
    one, other = first.first_look(0), second.first_look(0)
    mine, theirs = first.steps(one).pieces, second.steps(other).pieces
    assert len(mine) == len(theirs) == 2
    for a, b in zip(mine, theirs, strict=True):
        assert same_moment(Side(first, one), a.first, Side(second, other), "step") == b.first
        assert same_moment(Side(first, one), a.stop - 1, Side(second, other), "step") == b.stop - 1
        middle = same_moment(
            Side(first, one), (a.first + a.stop - 1) // 2, Side(second, other), "step"
        )
        assert abs(middle - (b.first + b.stop - 1) / 2) <= 1 + (b.stop - b.first) / (
            a.stop - a.first
        )
    found = [
        same_moment(Side(first, one), event, Side(second, other), "step")
        for event in range(-1, 4504)
    ]
    assert found == sorted(found)
    low, high = second.bounds(0)
    assert min(found) >= low
    assert max(found) <= high


def test_without_steps_and_times_only_events_can_be_synced() -> None:
    builder = SnapshotBuilder(times=False)
    builder.alloc(512, 100).alloc(1024, 100)
    explored = Explored(mr.open(dump(builder.build())))
    look = explored.first_look(0)
    assert syncs(explored, look, explored, look) == ("event",)
