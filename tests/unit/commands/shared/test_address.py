"""Tests of commands/shared/address.py."""

from __future__ import annotations

import click
import pytest

from memreplay.commands.shared.address import AddressType
from memreplay.snapshot.model import When


@pytest.mark.parametrize(
    "text, when",
    [
        ("0x10", When("address", 16)),
        ("0XfF#2", When("address", 255, "2")),
        (" 16#-1 ", When("address", 16, "-1")),
        ("0xffffffffffffffff", When("address", 2**64 - 1)),
        # A block as PyTorch's viewer shows it; the newest puts a quote behind the b.
        ("b7f064c000000_0", When("address", 0x7F064C000000, "_0")),
        ("b'7f064c000000_12", When("address", 0x7F064C000000, "_12")),
        ("7f064c000000_3", When("address", 0x7F064C000000, "_3")),
        ("0x7f064c000000_3", When("address", 0x7F064C000000, "_3")),
        ("704350000000_1", When("address", 0x704350000000, "_1")),
        ("b704350000000", When("address", 0x704350000000)),
        ("b0x7f064c000000", When("address", 0x7F064C000000)),
        ("7f064c000000", When("address", 0x7F064C000000)),
        ("139655152795648", When("address", 139655152795648)),
        ("b1000_0", When("address", 0x1000, "_0")),
    ],
)
def test_addresses(text: str, when: When) -> None:
    assert AddressType().convert(text, None, None) == when
    assert AddressType().convert(when, None, None) == when


def test_a_segment_of_pytorchs_viewer() -> None:
    for text in ("s7f064c000000_0", "s'7f064c000000_0"):
        with pytest.raises(click.BadParameter, match="is a segment in PyTorch's viewer"):
            AddressType().convert(text, None, None)


@pytest.mark.parametrize(
    "text",
    [
        *("", "ff", "0x", "-1", "1#", "0x1#a", str(2**64), "\u0661"),
        *("b", "b_0", "7f064c000000_", "b7f064c000000#1", "b7f064c000000_1#1", "7f064c000000_-1"),
        *("b" + "f" * 17, "x7f064c000000", "b''1000_0", "fff_0"),
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not an address: give 0x"):
        AddressType().convert(text, None, None)
