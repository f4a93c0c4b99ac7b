"""Each moment of a page has the closest sample of the card's memory."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.export.page.outside import outside_of
from memreplay.snapshot.recorded_memory import card_samples
from tests import build
from tests.unit.snapshot.test_recorded_memory import CARD, GIB, NOW

TIMES = st.lists(st.integers(NOW - 9, NOW + 9), min_size=1, max_size=9)


def recorded(
    events: list[int], samples: list[int], others: list[int | None] | None = None
) -> dict[str, Any]:
    """Return a snapshot with these times; the samples' free bytes are 1, 2, 3, …"""
    made = build.SnapshotBuilder()
    for at, time in enumerate(events):
        made.alloc(4096 * at, 512, time_us=time)
    found = made.build()
    card = CARD | {
        "times_us": samples,
        "free_bytes": [n + 1 for n in range(len(samples))],
        "reserved_bytes": [GIB] * len(samples),
        "other_bytes": others or [None] * len(samples),
    }
    found["memreplay"] = {"version": 1, "recorder": "record", "card_memory": [card]}
    return found


@given(TIMES, TIMES)
def test_each_moment_has_the_closest_sample(events: list[int], samples: list[int]) -> None:
    snap = mr.open(build.dump(recorded(events, samples)))
    replay = snap.replay()
    (card,) = card_samples(snap)
    found = outside_of(snap, replay)
    assert found is not None
    assert found.times_us == tuple(sorted({one - events[0] for one in samples}))
    for moment in range(len(events) + 1):
        at = max(i for i, first in enumerate(found.moments) if first <= moment)
        now = max(events[: max(moment, 1)])
        wanted = card.closest(now)
        assert found.free_bytes[at] == card.free_bytes[wanted]
        assert found.outside_bytes[at] == card.outside(wanted)
        assert found.times_us[at] + events[0] == card.times_us[wanted]


def test_parts_add_up_to_the_card() -> None:
    made = recorded([NOW, NOW + 5], [NOW + 4, NOW], [33 * GIB, None])
    snap = mr.open(build.dump(made))
    found = outside_of(snap, snap.replay())
    assert found is not None
    assert found.other_bytes == (None, 33 * GIB)
    sums = [
        free + outside + (other or 0) + GIB
        for free, outside, other in zip(
            found.free_bytes, found.outside_bytes, found.other_bytes, strict=True
        )
    ]
    assert sums == [found.total_bytes] * 2 == [80 * GIB] * 2


def test_ranges_count_from_their_first_event() -> None:
    data = build.dump(recorded([NOW, NOW + 10, NOW + 20, NOW + 30], [NOW, NOW + 20]))
    snap = mr.open(data, start=1)
    found = outside_of(snap, snap.replay())
    assert found is not None
    assert (found.moments, found.times_us) == ((0, 2), (-10, 10))


def test_nothing_without_samples_times_or_exact_numbers() -> None:
    plain = mr.open(build.dump(build.SnapshotBuilder().alloc(1, 2).build()))
    assert outside_of(plain, plain.replay()) is None
    untimed = build.SnapshotBuilder(times=False).alloc(1, 2).build()
    untimed["memreplay"] = recorded([NOW], [NOW])["memreplay"]
    snap = mr.open(build.dump(untimed))
    assert outside_of(snap, snap.replay()) is None
    late = mr.open(build.dump(recorded([NOW], [2**60])))
    assert outside_of(late, late.replay()) is None
