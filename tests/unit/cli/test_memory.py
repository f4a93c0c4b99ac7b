"""Tests of cli/memory.py."""

from __future__ import annotations

import click
import pytest

from memreplay.cli.memory import MemoryType

GIB = 1 << 30


@pytest.mark.parametrize(
    "text, found",
    [
        ("80GiB", 80 * GIB),
        ("80 GiB", 80 * GIB),
        ("80G", 80 * GIB),
        ("23.5GiB", 23 * GIB + GIB // 2),
        ("80GB", 80 * 10**9),
        ("16384M", 16 * GIB),
        ("1TiB", 1024 * GIB),
        ("85899345920", 80 * GIB),
        ("512B", 512),
        (512, 512),
    ],
)
def test_amounts(text: object, found: int) -> None:
    assert MemoryType().convert(text, None, None) == found


@pytest.mark.parametrize("text", ["", "GiB", "-1", "0", "80XB", "8 GiB more", "9" * 40, "9999999T"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"no amount of memory|no card's memory"):
        MemoryType().convert(text, None, None)
