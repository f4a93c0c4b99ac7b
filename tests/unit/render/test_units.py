"""Tests of render/units.py."""

from __future__ import annotations

import pytest

from memreplay.render import units


@pytest.mark.parametrize(
    "n_bytes, text",
    [
        (0, "0 B"),
        (512, "512 B"),
        (1_023, "1023 B"),
        (1_024, "1.0 KiB"),
        (41_231_686_042, "38.4 GiB"),
        (1_048_575, "1.0 MiB"),  # not 1024.0 KiB
        (-1_536, "-1.5 KiB"),
        (2**63 - 1, "8.0 EiB"),
        (2**80, "1048576.0 EiB"),
    ],
)
def test_sizes_have_a_binary_unit(n_bytes: int, text: str) -> None:
    assert units.size(n_bytes) == text


def test_signed_values_show_their_sign() -> None:
    assert [units.signed_size(n) for n in (1_536, 0, -512)] == ["+1.5 KiB", "0 B", "-512 B"]
    assert [units.signed_count(n) for n in (22_331, 0, -5)] == ["+22,331", "0", "-5"]
    assert [units.signed_duration(n) for n in (412_345, 0, -3)] == ["+0.412 s", "+0 us", "-3 us"]


def test_counts_have_their_plural() -> None:
    assert units.counted(1, "block") == "1 block"
    assert units.counted(0, "block") == "0 blocks"
    assert units.counted(22_331, "block") == "22,331 blocks"


def test_shares_become_percentages() -> None:
    assert [units.percent(share) for share in (0.0, 0.0001, 0.4213, 1.0)] == [
        "0.0%",
        "<0.1%",
        "42.1%",
        "100.0%",
    ]


@pytest.mark.parametrize(
    "us, text",
    [
        (0, "0 us"),
        (999, "999 us"),
        (412_345, "0.412 s"),
        (59_999_499, "59.999 s"),
        (59_999_500, "1 min 00.0 s"),
        (123_456_789, "2 min 03.5 s"),
        (3_599_950_000, "1 h 00 min"),
        (7_380_000_000, "2 h 03 min"),
        (-1_500_000, "-1.500 s"),
    ],
)
def test_durations_have_a_unit(us: int, text: str) -> None:
    assert units.duration(us) == text


def test_times_are_utc() -> None:
    assert units.time_utc(1_783_874_422_412_345) == "2026-07-12 16:40:22.412345 UTC"
    assert units.time_utc(-1) == "1969-12-31 23:59:59.999999 UTC"


@pytest.mark.parametrize("us", [2**63, -(2**63), 10**30])
def test_invalid_times_are_microseconds_since_1970(us: int) -> None:
    assert units.time_utc(us) == f"{us} us since 1970"


@pytest.mark.parametrize(
    "us, text",
    [
        (0, "0 us"),
        (999, "999 us"),
        (1_000, "1.00 ms"),
        (7_868, "7.87 ms"),
        (999_994, "999.99 ms"),
        (999_995, "1.00 s"),
        (59_994_999, "59.99 s"),
        (59_995_000, "59.995 s"),
        (59_999_500, "1 min 00.0 s"),
        (3_600_000_000, "1 h 00 min"),
    ],
)
def test_fine_durations_include_milliseconds(us: int, text: str) -> None:
    assert units.fine_duration(us) == text
