"""Notes on the memory of cards and of the process are validated."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

import memreplay as mr
from memreplay.render.plain import render_plain
from memreplay.render.recorded_memory import card_blocks, card_line, host_line
from memreplay.snapshot.recorded_memory import CardSamples, card_samples, card_uses, host_use
from tests import build

GIB = 1 << 30
SECOND = 1_000_000
NOW = 1_790_000_000 * SECOND
CARD: dict[str, Any] = {
    "device": 0,
    "total_bytes": 80 * GIB,
    "is_part": False,
    "times_us": [NOW, NOW + SECOND, NOW + 9 * SECOND],
    "free_bytes": [70 * GIB, 30 * GIB, 35 * GIB],
    "reserved_bytes": [6 * GIB, 10 * GIB, 10 * GIB],
    "other_bytes": [None, 33 * GIB, 33 * GIB],
    "processes": [
        {"pid": 4711, "name": "python", "bytes": 33 * GIB, "is_recorded": False},
        {"pid": 7, "name": "train", "bytes": 12 * GIB, "is_recorded": True},
    ],
    "processes_missing": "",
}
HOST: dict[str, Any] = {
    "times_us": [NOW, NOW + SECOND],
    "resident_bytes": [2 * GIB, 3 * GIB],
    "shared_bytes": [2 * GIB, None],
    "pinned_active_bytes": [None, 1 * GIB],
    "pinned_bytes": [None, 2 * GIB],
    "resident_peak_bytes": 4 * GIB,
    "pinned_peak_bytes": 5 * GIB,
}


def noted(cards: Any = None, host: Any = None) -> mr.Snapshot:
    made = build.SnapshotBuilder().alloc(4096, 512).build()
    made["memreplay"] = {
        "version": 1,
        "recorder": "record",
        "card_memory": cards,
        "host_memory": host,
    }
    return mr.open(build.dump(made))


def test_parts_add_up_to_the_card() -> None:
    (use,) = card_uses(noted([CARD]))
    assert use.time_us == NOW + 9 * SECOND
    assert not use.at_oom
    assert use.other_bytes == 33 * GIB
    assert use.outside_bytes == 2 * GIB
    assert use.outside_peak_bytes == 7 * GIB
    parts = use.free_bytes + use.reserved_bytes + use.other_bytes + use.outside_bytes
    assert parts == use.total_bytes == 80 * GIB
    assert [one.pid for one in use.processes] == [4711, 7]


@pytest.mark.parametrize(
    "oom_us, free",
    [
        (NOW - 2 * SECOND, 70),
        (NOW - 2 * SECOND - 1, None),
        (NOW + 400_000, 70),
        (NOW + 600_000, 30),
        (NOW + 3 * SECOND, 30),
        (NOW + 5 * SECOND, None),
        (NOW + 10 * SECOND, 35),
        (None, None),
    ],
)
def test_nearest_sample_stands_for_a_failed_request(oom_us: int | None, free: int | None) -> None:
    (use,) = card_uses(noted([CARD]), {0: oom_us, 1: NOW})
    assert use.at_oom == (free is not None)
    assert use.free_bytes == (35 if free is None else free) * GIB


def test_unknown_others_are_part_of_the_outside() -> None:
    (use,) = card_uses(noted([CARD]), {0: NOW})
    assert use.other_bytes is None
    assert use.outside_bytes == 4 * GIB
    assert use.outside_peak_bytes == 4 * GIB  # of samples that don't know others, either


def test_outside_is_never_negative() -> None:
    """The allocator may free a segment between the driver's answer and its own."""
    (use,) = card_uses(noted([CARD | {"reserved_bytes": [80 * GIB] * 3}]))
    assert use.outside_bytes == 0


def test_fullest_samples_of_buckets() -> None:
    (found,) = card_samples(noted([CARD]))
    times = [NOW - 1, NOW, NOW + SECOND - 1, NOW + SECOND, NOW + 99 * SECOND, None]
    assert found.fullest(NOW - 2, times) == [None, 0, 0, 1, 2, 2]
    assert found.fullest(NOW - 2, [NOW, None]) == [0, 1]  # the card was fuller before the end
    assert found.fullest(NOW + SECOND, [NOW + 2 * SECOND, None]) == [1, 2]
    assert found.fullest(NOW + 2 * SECOND, [NOW + 3 * SECOND]) == [1]  # the last one before
    assert found.fullest(None, [None]) == [1]
    (found,) = card_samples(noted([CARD | {"times_us": [NOW + SECOND, NOW, NOW + 2 * SECOND]}]))
    assert found.fullest(NOW - 1, [NOW - 1, NOW, NOW + SECOND]) == [None, 1, 0]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=8),
    st.lists(st.integers(-2, 12), min_size=2, max_size=5).map(sorted),
)
def test_fullest_sample_has_the_least_free_memory(
    samples: list[tuple[int, int]], bounds: list[int]
) -> None:
    card = CARD | {
        "times_us": [time for time, _ in samples],
        "free_bytes": [free for _, free in samples],
        "reserved_bytes": [0] * len(samples),
        "other_bytes": [None] * len(samples),
    }
    found = convert(card, CardSamples).fullest(bounds[0], bounds[1:])
    at = bounds[0] - 1  # the first bucket has its start
    for end, one in zip(bounds[1:], found, strict=True):
        inside = [free for time, free in samples if at < time <= end]
        earlier = [time for time, _ in samples if time <= end]
        at = max(at, end)
        if inside:
            assert one is not None
            assert samples[one][1] == min(inside)
        elif earlier:
            assert one is not None
            assert samples[one][0] == max(earlier)
        else:
            assert one is None


def test_cards_are_in_order() -> None:
    found = card_uses(noted([CARD | {"device": 3}, CARD]))
    assert [one.device for one in found] == [0, 3]


def test_host_memory_is_that_of_the_end() -> None:
    use = host_use(noted(host=HOST))
    assert use is not None
    assert (use.resident_bytes, use.resident_peak_bytes) == (3 * GIB, 4 * GIB)
    assert (use.shared_bytes, use.shared_peak_bytes) == (None, 2 * GIB)
    assert (use.pinned_active_bytes, use.pinned_bytes, use.pinned_peak_bytes) == (
        GIB,
        2 * GIB,
        5 * GIB,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"device": -1},
        {"device": 1024},
        {"device": True},
        {"total_bytes": 1 << 62},
        {"total_bytes": 5},
        {"total_bytes": None},
        {
            "total_bytes": 0,
            "free_bytes": [0] * 3,
            "reserved_bytes": [0] * 3,
            "other_bytes": [0] * 3,
        },
        {"is_part": 1},
        {"times_us": []},
        {"times_us": [NOW]},
        {"times_us": [NOW, NOW, -1]},
        {"times_us": "abc"},
        {"free_bytes": [1, 2]},
        {"free_bytes": [1, 2, 81 * GIB]},
        {"free_bytes": [1, 2, 3.5]},
        {"free_bytes": [1, 2, None]},
        {"reserved_bytes": [1, 2, 3, 4]},
        {"other_bytes": [1, 2, "3"]},
        {"other_bytes": [1, 2, 1 << 61]},
        {"processes": None},
        {"processes": [{}]},
        {"processes": [CARD["processes"][0] | {"pid": -1}]},
        {"processes": [CARD["processes"][0] | {"pid": 1 << 32}]},
        {"processes": [CARD["processes"][0] | {"name": "x" * 5000}]},
        {"processes": [CARD["processes"][0] | {"name": 5}]},
        {"processes": [CARD["processes"][0] | {"bytes": -1}]},
        {"processes": CARD["processes"] * 600},
        {"processes_missing": None},
    ],
)
def test_invalid_samples_are_ignored(change: dict[str, Any]) -> None:
    snap = noted([CARD | change])
    assert card_samples(snap) == ()
    assert "in use on the card" not in str(mr.report(snap))


@pytest.mark.parametrize("cards", [None, 5, "x", {}, [1], [CARD, CARD], [CARD | {"free_bytes": 1}]])
def test_other_values_are_ignored(cards: Any) -> None:
    assert card_uses(noted(cards)) == ()


@pytest.mark.parametrize(
    "host",
    [
        None,
        5,
        [],
        HOST | {"times_us": []},
        HOST | {"resident_bytes": [1]},
        HOST | {"pinned_bytes": [1, -1]},
        HOST | {"pinned_bytes": [1, 1, 1]},
        HOST | {"resident_peak_bytes": "1"},
        {name: value for name, value in HOST.items() if name != "shared_bytes"},
    ],
)
def test_invalid_host_memory_is_ignored(host: Any) -> None:
    snap = noted(host=host)
    assert host_use(snap) is None
    assert "host memory" not in str(mr.report(snap))
    assert mr.summary(snap).host_memory is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.integers(0, 80).map(lambda n: n * GIB),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.sampled_from([*CARD]), some),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*CARD]), VALUES), st.integers(0, 2**62))
def test_any_value_is_read_or_ignored(change: dict[str, Any], moment: int) -> None:
    snap = noted([CARD | change], HOST | {k: v for k, v in change.items() if k in HOST})
    for use in card_uses(snap, {0: moment}):
        assert 0 <= use.outside_bytes <= use.total_bytes < 2**62
        assert use.free_bytes <= use.total_bytes
        assert use.outside_peak_bytes >= use.outside_bytes
        assert card_line(use)
    assert host_line(host_use(snap)) is not None
    for samples in card_samples(snap):
        assert len(samples.fullest(moment, [moment, None])) == 2
    assert render_plain(tuple(card_blocks(card_uses(snap))), width=100) is not None


def test_snapshots_without_notes_have_none() -> None:
    snap = mr.open(build.dump(build.SnapshotBuilder().alloc(1, 2).build()))
    assert card_uses(snap) == ()
    assert host_use(snap) is None
    assert mr.report(snap).card_memory == ()


def test_notes_are_part_of_the_results() -> None:
    snap = noted([CARD], HOST)
    (use,) = card_uses(snap)
    for found in (mr.report(snap), mr.summary(snap)):
        assert tuple(found.card_memory) == (use,)
        assert found.host_memory == host_use(snap)
    assert tuple(mr.oom(snap).card_memory) == (use,)
