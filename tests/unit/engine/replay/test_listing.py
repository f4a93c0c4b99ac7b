"""listing: the allocations of a live set, largest first, match a full sort."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.replay import _timeline
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder

NEVER_ENDED = 2**32 - 1


@given(recordings(max_devices=1), st.integers(0, 5), st.randoms(use_true_random=False))
def test_list_matches_a_full_sort_of_any_recording(
    recording: Recording, top: int, dice: random.Random
) -> None:
    snap = mr.open(build.dump(recording.snapshot))
    assume(snap.devices)
    replay = snap.replay()
    event = dice.randint(-1, replay.events - 1)
    for name in ("requested", "held", "active"):
        measure = replay.measure(name).native
        allocs, blocks = (memoryview(column).tolist() for column in measure.live(event))
        weights, ends = memoryview(measure.weights()), memoryview(measure.ends())
        carried_weights = memoryview(measure.carried_weights())
        carried_ends = memoryview(measure.carried_ends())
        want = [(i, False, weights[i], ends[i]) for i in allocs]
        want += [(i, True, carried_weights[i], carried_ends[i]) for i in blocks]
        want.sort(key=lambda one: (-one[2], not one[1], one[0]))
        for asked in (measure, _timeline.Moments(measure)):
            assert asked.largest(event, top) == want[: top or None]


def test_ends_are_listed_and_invalid_arguments_refused() -> None:
    builder = SnapshotBuilder().alloc(512, 7).alloc(1024, 9).free_completed(512, 7)
    measure = mr.open(build.dump(builder.build())).replay().measure().native
    assert measure.largest(1, 0) == [(1, False, 9, NEVER_ENDED), (0, False, 7, 2)]
    with pytest.raises(IndexError):
        measure.largest(3, 0)
