"""Tests of analysis/selecting/sizes.py."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.analysis.selecting.sizes import SizeError, parse_share, parse_size, share_of

GIB = 1 << 30


@pytest.mark.parametrize(
    "text, size",
    [
        ("0", 0),
        ("0.0", 0),
        ("0B", 0),
        ("4096B", 4096),
        ("41_000_000 b", 41_000_000),
        ("40e9B", 40 * 10**9),
        ("1.5e3 B", 1500),
        ("38GiB", 38 * GIB),
        ("38 GiB", 38 * GIB),
        (" 38gib ", 38 * GIB),
        ("38GB", 38 * 10**9),
        ("38 GB", 38 * 10**9),
        ("38G", 38 * GIB),
        ("23.5GiB", 23 * GIB + GIB // 2),
        ("64k", 64 << 10),
        ("64kB", 64_000),
        ("64Ki", 64 << 10),
        ("1.5M", 3 << 19),
        ("2TB", 2 * 10**12),
        ("1TiB", 1 << 40),
        ("512B", 512),
        ("512 B", 512),
        ("1.9B", 1),
        (0, 0),
        (0.0, 0),
    ],
)
def test_sizes_are_parsed(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "-1", "GiB", "1.5.2", "9" * 30, "8 GiB more", "80XB", "1e-3", "1e3GiB", "1__0"),
        *("_1", "2%", "\u0664\u0662", "4\u212a", "1,5GiB", "inf", "nan", "0x10", "8Gi B"),
        pytest.param("9" * 10_000_000, id="nines"),
        *(None, True, -1, 2**62, 1.5, float("inf"), float("nan"), [], {}),
    ],
)
def test_invalid_sizes_are_rejected(text: object) -> None:
    with pytest.raises(SizeError, match="is not a size; give") as caught:
        parse_size(text)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    "text, words",
    [
        ("8", "'8' has no unit; give 8GiB (or MiB, KiB), or 8B for bytes"),
        (" 4096 ", "or 4096B for bytes"),
        ("40e9", "or 40e9B for bytes"),
        ("1.9", "give 1.9GiB"),
        (512, "512 has no unit; give 512GiB (or MiB, KiB), or 512B for bytes"),
        (40e9, "or 40000000000B for bytes"),
    ],
)
def test_bare_number_needs_a_unit(text: object, words: str) -> None:
    with pytest.raises(SizeError) as caught:
        parse_size(text)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["9999999999T", "1e20", "1e99B", "4194304TiB"])
def test_too_large_sizes_are_rejected(text: str) -> None:
    with pytest.raises(SizeError, match="is too large"):
        parse_size(text)


@given(st.integers(0, 2**62 - 1))
def test_whole_bytes_are_parsed_exactly(size: int) -> None:
    if len(str(size)) <= 18:
        assert parse_size(f"{size}B") == parse_size(f"{size:_} B") == size


@pytest.mark.parametrize("text, share", [("2%", 0.02), ("0.5 %", 0.005), ("0%", 0), ("150%", 1.5)])
def test_shares_are_parsed(text: str, share: float) -> None:
    assert parse_share(text) == share


@pytest.mark.parametrize(
    "text", ["2", "0.02", "\u0664%", "%", "-2%", "2 percent", 2, 0.02, None, True, ""]
)
def test_invalid_shares_are_rejected(text: object) -> None:
    with pytest.raises(SizeError, match="is not a percentage; give 2%"):
        parse_share(text)


@given(st.integers(0, 2**62), st.integers(0, 10**6), st.integers(0, 9), st.data())
def test_share_is_applied_as_an_exact_decimal(
    n_bytes: int, whole: int, places: int, data: Any
) -> None:
    part = data.draw(st.integers(0, 10**places - 1))
    digits = whole * 10**places + part
    share = parse_share(f"{whole}.{part:0{places}}%" if places else f"{whole}%")
    assert share_of(n_bytes, share) == n_bytes * digits // (100 * 10**places)


def test_share_is_rounded_correctly() -> None:
    assert share_of(100, parse_share("29%")) == 29
    assert share_of(1000, parse_share("2.5%")) == 25
    assert share_of(2**62, parse_share("100%")) == 2**62
