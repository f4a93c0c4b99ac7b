"""Comparisons of ranks: moments and distributions match brute force."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.analysis.comparing.spread import run_spread, spread_of
from memreplay.analysis.selecting.selection import Filters
from memreplay.commands.diff.find import diff_report
from memreplay.commands.diff.ranks_find import chosen_rank, rank_diff, rank_of_sides, rank_sides
from memreplay.commands.diff.ranks_result import RankDiff, RankSide
from memreplay.errors import UsageError
from memreplay.snapshot.model import MeasureName, When
from tests import build
from tests.allocator_strategies import Recording, recordings
from tests.build import SnapshotBuilder

PEAK = When("peak", 1)
MEASURES: list[MeasureName] = ["requested", "held", "active", "allocated", "reserved"]


def opened(
    snapshot: build.Snapshot, device: int | None = None, start: int | None = None
) -> mr.Snapshot:
    return mr.open(build.dump(snapshot), device=device, start=start)


@given(
    recordings(max_steps=60),
    st.sampled_from(MEASURES),
    st.sampled_from([PEAK, When("end"), When("start")]),
    st.booleans(),
)
def test_both_sides_match_the_truth(
    recording: Recording, measure: MeasureName, when: When, strict: bool
) -> None:
    snap = opened(recording.snapshot)
    sides = rank_sides(snap, measure=measure, when=when, strict=strict)
    assert tuple(sides) == snap.devices
    for device, side in sides.items():
        usage = snap.replay(device).measure(measure)
        series = [usage.start_bytes, *usage.series.tolist()]
        at = {"peak": series.index(max(series)), "start": 0, "end": len(series) - 1}[when.kind]
        assert (side.bytes, side.event_index) == (series[at], at - 1)
        assert side.device == device


@given(
    recordings(max_steps=60),
    recordings(max_steps=60),
    st.sampled_from(MEASURES),
    st.sampled_from([PEAK, When("end")]),
    st.booleans(),
    st.sampled_from([None, 0, 7]),
)
def test_rank_matches_a_diff_of_its_device(
    base: Recording,
    new: Recording,
    measure: MeasureName,
    when: When,
    strict: bool,
    start: int | None,
) -> None:
    """The selected rank's groups come from its files, which are read again for one device."""
    ours, theirs = (
        rank_sides(opened(one.snapshot, start=start), measure=measure, when=when, strict=strict)
        for one in (base, new)
    )
    try:
        found = rank_diff(3, ours, theirs)
    except UsageError:
        assert not set(ours) & set(theirs)
        return
    report = diff_report(
        opened(base.snapshot, found.base.device, start),
        opened(new.snapshot, found.new.device, start),
        measure=measure,
        at=when,
        strict=strict,
    )
    (device,) = report.devices
    both = ((base, found.base, device.base), (new, found.new, device.new))
    for recording, side, want in both:
        assert (side.bytes, side.event_index, side.time_us) == (
            want.bytes,
            want.event_index,
            want.time_us,
        )
        if set(side.reasons) == set(want.reasons):
            assert (side.exactness, side.trusted) == (want.exactness, want.trusted)
            assert side.reasons == want.reasons
            continue
        # If only one device is read, other devices' events can't show that this one was recorded,
        # so only its own events count.
        assert set(want.reasons) - set(side.reasons) == {"no_allocations"}
        assert not set(side.reasons) - set(want.reasons)
        own, others = told(recording.snapshot, side.device)
        assert others > own == 0
        assert not want.trusted


def told(snapshot: build.Snapshot, device: int) -> tuple[int, int]:
    """Return how many events on a device, and how many on other devices, show that the device was
    recorded.
    """
    counts = [
        (sum(event["action"] in ("alloc", "free_requested") for event in trace), len(trace))
        for trace in snapshot["device_traces"]
    ]
    others = [pair for place, pair in enumerate(counts) if place != device]
    return counts[device][0], sum(own + (events > 1) for own, events in others)


def test_rank_without_allocations_is_known_only_next_to_others() -> None:
    """Other devices' events show that the rank was recorded. If the rank is read by itself, this is
    unknown.
    """
    builder = SnapshotBuilder(devices=2).alloc(512, 10)
    whole = builder.segment_alloc(2**40, 2**21, device=1).build()
    side = rank_sides(opened(whole), measure="requested", when=PEAK)[1]
    alone = rank_sides(opened(whole, 1), measure="requested", when=PEAK)[1]
    assert "no_allocations" not in side.reasons
    assert "no_allocations" in alone.reasons
    own, others = told(whole, 1)
    assert others > own == 0
    assert alone.bytes == side.bytes


def two_devices() -> SnapshotBuilder:
    builder = SnapshotBuilder(devices=2).alloc(512, 10).alloc(4096, 900, device=1)
    return builder.alloc(8192, 70, device=1)


def test_device_without_the_moment_is_left_out() -> None:
    snap = opened(two_devices().build())
    assert {k: v.bytes for k, v in rank_sides(snap, measure="requested", when=PEAK).items()} == {
        0: 10,
        1: 970,
    }
    sides = rank_sides(snap, measure="requested", when=When("event", 1))
    assert [(side.device, side.bytes) for side in sides.values()] == [(1, 970)]
    with pytest.raises(UsageError, match="no event 7"):
        rank_sides(snap, measure="requested", when=When("event", 7))


def test_filters_apply_to_each_side() -> None:
    snap = opened(two_devices().build())
    few = rank_sides(snap, measure="requested", when=PEAK, filters=Filters(min_bytes=100))
    assert [side.bytes for side in few.values()] == [0, 900]
    with pytest.raises(UsageError):
        rank_sides(snap, measure="requested", when=PEAK, stream=77)
    with pytest.raises(UsageError):
        rank_sides(snap, measure="reserved", when=PEAK, filters=Filters(min_bytes=100))


def side(n_bytes: int, device: int = 0) -> RankSide:
    return RankSide(
        file="f",
        device=device,
        bytes=n_bytes,
        event_index=0,
        time_us=None,
        exactness="exact",
        trusted=True,
        reasons=(),
    )


def test_highest_device_of_both_sides_is_compared() -> None:
    def sides(*n_bytes: tuple[int, int]) -> dict[int, RankSide]:
        return {device: side(one, device) for device, one in n_bytes}

    found = rank_diff(1, sides((0, 5), (1, 50), (3, 99)), sides((0, 2), (1, 60), (2, 400)))
    assert (found.base.device, found.new.device, found.change_bytes) == (1, 1, 10)
    assert found.other_devices == (0, 2, 3)
    # The base's highest device doesn't matter.
    found = rank_diff(1, sides((0, 900), (1, 50)), sides((0, 2), (1, 60)))
    assert (found.base.device, found.new.device) == (1, 1)
    # Each side uses its own device, because one launcher shows a process all devices and another
    # only one.
    found = rank_diff(1, sides((3, 5)), sides((0, 8)))
    assert (found.base.device, found.new.device, found.change_bytes) == (3, 0, 3)
    assert found.other_devices == ()
    with pytest.raises(UsageError, match="rank 1 has no device in common: device 3 in the base, n"):
        rank_diff(1, sides((3, 5)), {})
    with pytest.raises(UsageError, match="device 3 in the base, device 0, 1 in the new run"):
        rank_diff(1, sides((3, 5)), sides((0, 8), (1, 8)))


@given(st.dictionaries(st.integers(0, 99), st.integers(-(2**62), 2**62), min_size=1, max_size=20))
def test_spread_matches_brute_force(n_bytes: dict[int, int]) -> None:
    ranks, numbers = list(n_bytes), list(n_bytes.values())
    found = spread_of(ranks, numbers)
    assert (found.min_bytes, found.max_bytes, found.sum_bytes) == (
        min(numbers),
        max(numbers),
        sum(numbers),
    )
    low, high = statistics.median_low(numbers), statistics.median_high(numbers)
    assert found.median_bytes == (low + high) // 2
    for rank, most in ((found.min_rank, min(numbers)), (found.max_rank, max(numbers))):
        assert rank == min(one for one in ranks if n_bytes[one] == most)


def test_imbalance_is_the_maximum_over_the_median() -> None:
    assert run_spread([0, 1, 2], [4, 8, 2]).imbalance == 2.0
    assert run_spread([0, 1, 2], [0, 8, 0]).imbalance is None


@given(
    st.lists(
        st.tuples(*[recordings(max_steps=40, max_devices=1, settings="default")] * 2),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["requested", "held"]),
)
def test_runs_match_brute_force(
    pairs: list[tuple[Recording, Recording]], measure: MeasureName
) -> None:
    """Compare peaks and distributions of random programs with the allocator model's numbers."""
    found, tops = [], []
    for rank, pair in enumerate(pairs):
        if any(0 not in opened(one.snapshot).devices for one in pair):
            continue
        base, new = (rank_sides(opened(one.snapshot), measure=measure, when=PEAK) for one in pair)
        found.append(rank_diff(rank, base, new))
        tops.append([peak_of(one, measure) for one in pair])
        exact = found[-1].base.exactness, found[-1].new.exactness
        got = found[-1].base.bytes, found[-1].new.bytes
        for one, want, so in zip(got, tops[-1], exact, strict=True):
            assert one == want or so == "estimated"
    if found and all("estimated" not in (one.base.exactness, one.new.exactness) for one in found):
        numbers = [one.rank for one in found]
        change = spread_of(numbers, [one.change_bytes for one in found])
        assert change.sum_bytes == sum(new - base for base, new in tops)
        assert change.max_bytes == max(new - base for base, new in tops)
        worst = spread_of(numbers, [one.new.bytes for one in found])
        assert worst.max_bytes == max(new for _, new in tops)
        assert (shown := chosen_rank(found, "worst")) is not None
        assert (shown.rank, shown.new.bytes) == (worst.max_rank, worst.max_bytes)


def peak_of(recording: Recording, measure: MeasureName) -> int:
    truth = recording.truths[0]
    return max([truth.start_of(measure), *truth.series(measure)])


def ranks(*changes: tuple[int, int]) -> list[RankDiff]:
    return [rank_of_sides(i, side(base), side(new)) for i, (base, new) in enumerate(changes)]


@pytest.mark.parametrize(
    "changes, choice, rank",
    [
        ([(5, 6), (1, 9), (20, 20)], None, 1),
        ([(5, 6), (1, 9), (20, 20)], "worst", 2),
        ([(5, 6), (1, 9), (20, 20)], 0, 0),
        ([(5, 6), (1, 9), (20, 20)], 3, None),
        ([(5, 4), (9, 1), (20, 20)], None, 1),
        ([(5, 5), (9, 9), (9, 9)], None, 1),
        ([(5, 6), (1, 2)], None, 0),
    ],
)
def test_rank_with_the_largest_change_is_shown_unless_one_is_chosen(
    changes: list[tuple[int, int]], choice: int | str | None, rank: int | None
) -> None:
    found = chosen_rank(ranks(*changes), choice)
    assert (None if found is None else found.rank) == rank
