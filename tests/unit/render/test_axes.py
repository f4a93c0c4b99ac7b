"""axes: ticks are round, ascending, few enough and within the axis."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.render.axes import Tick, byte_ticks, clock_ticks, elapsed_ticks, event_ticks
from tests.build import START_US

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SECOND = 1_000_000


def labels(ticks: Sequence[Tick]) -> list[str]:
    return [tick.label for tick in ticks]


@pytest.mark.parametrize(
    "low, high, most, want",
    [
        (0, 5 * GIB, 4, ["0 B", "2 GiB", "4 GiB"]),
        (0, 3 * GIB // 2, 4, ["0 B", "0.5 GiB", "1.0 GiB", "1.5 GiB"]),
        (0, 700 * MIB, 4, ["0 B", "200 MiB", "400 MiB", "600 MiB"]),
        (0, 3, 5, ["0 B", "1 B", "2 B", "3 B"]),
        (0, 1, 9, ["0 B", "1 B"]),
        (-GIB, GIB // 2, 4, ["-1.0 GiB", "-0.5 GiB", "0 B", "0.5 GiB"]),
        (-2 * KIB, 2 * KIB, 4, ["-2 KiB", "-1 KiB", "0 B", "1 KiB", "2 KiB"]),
    ],
)
def test_byte_ticks_are_round_sizes(low: int, high: int, most: int, want: list[str]) -> None:
    assert labels(byte_ticks(low, high, most)) == want


def test_event_ticks_are_round_numbers() -> None:
    assert labels(event_ticks(0, 10_000, 5)) == ["0", "2,000", "4,000", "6,000", "8,000"]
    assert labels(event_ticks(1_234, 1_240, 3)) == ["1,234", "1,236", "1,238"]
    assert labels(event_ticks(0, 1, 5)) == ["0"]


@pytest.mark.parametrize(
    "whole, most, want",
    [
        (250, 3, ["0 us", "100 us", "200 us"]),
        (2_500, 3, ["0 ms", "1 ms", "2 ms"]),
        (1_600_000, 4, ["0 s", "0.5 s", "1 s", "1.5 s"]),
        (100 * SECOND, 4, ["0 s", "30 s", "60 s", "90 s"]),
        (10 * 60 * SECOND, 4, ["0 min", "5 min", "10 min"]),
        (10 * 3600 * SECOND, 4, ["0 h", "3 h", "6 h", "9 h"]),
        (0, 4, ["0 us"]),
    ],
)
def test_elapsed_ticks_are_round_durations(whole: int, most: int, want: list[str]) -> None:
    assert labels(elapsed_ticks(whole, most)) == want


@pytest.mark.parametrize(
    "whole, want",
    [
        (2_000, ["22:13:20.000", "22:13:20.001", "22:13:20.002"]),
        (2 * SECOND, ["22:13:20", "22:13:21", "22:13:22"]),
        (5 * 60 * SECOND, ["22:14", "22:16", "22:18"]),
        (3 * 24 * 3600 * SECOND, ["2023-11-15", "2023-11-16", "2023-11-17"]),
    ],
)
def test_clock_ticks_are_round_times(whole: int, want: list[str]) -> None:
    start = START_US // SECOND * SECOND
    assert labels(clock_ticks(start, start + whole, 3))[:3] == want


ANY_TIME = st.integers(-(2**63) + 1, 2**63 - 1)


@given(ANY_TIME, ANY_TIME, st.integers(2, 20))
def test_ticks_of_any_axis_ascend_within_it(one: int, other: int, most: int) -> None:
    low, high = sorted((one, other))
    for ticks, first, last in (
        (byte_ticks(low, max(high, low + 1), most), low, max(high, low + 1)),
        (event_ticks(low, high + 1, most), low, high),
        (elapsed_ticks(high - low, most), 0, high - low),
        (clock_ticks(low, high, most), low, high),
    ):
        places = [tick.at for tick in ticks]
        assert places == sorted(set(places))
        assert all(first <= at <= last * (1 + 1e-9) + 1 for at in places if at >= 0)
        assert len(places) <= 2 * most + 2


def test_ticks_within_a_small_part_use_a_smaller_unit() -> None:
    gib = 1 << 30
    found = labels(byte_ticks(22 * gib, 22 * gib + (88 << 20), 4))
    assert found == ["22550 MiB", "22600 MiB"]
    assert labels(byte_ticks(22 * gib, 23 * gib, 2)) == ["22.0 GiB", "22.5 GiB", "23.0 GiB"]
    assert labels(elapsed_ticks(9_000_000, 4, 7_000_000)) == ["7 s", "7.5 s", "8 s", "8.5 s", "9 s"]
