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
    ],
)
def test_addresses(text: str, when: When) -> None:
    assert AddressType().convert(text, None, None) == when
    assert AddressType().convert(when, None, None) == when


@pytest.mark.parametrize("text", ["", "ff", "0x", "-1", "1#", "0x1#a", str(2**64), "\u0661"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not an address: give 0x"):
        AddressType().convert(text, None, None)
