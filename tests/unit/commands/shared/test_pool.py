"""Tests of commands/shared/pool.py."""

from __future__ import annotations

import click
import pytest

from memreplay.commands.shared.pool import PoolType, StreamType


@pytest.mark.parametrize(
    "text, pool",
    [
        ("default", (0, 0)),
        ("0:1", (0, 1)),
        ("3,0", (3, 0)),
        ("(0, 1)", (0, 1)),
        (" 12:0 ", (12, 0)),
        ((0, 1), (0, 1)),
    ],
)
def test_a_pool(text: object, pool: tuple[int, int]) -> None:
    assert PoolType().convert(text, None, None) == pool


@pytest.mark.parametrize("text", ["", "nonsense", "1", "1:2:3", "-1:0", "0:" + "9" * 19])
def test_no_pool(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not a pool: give its two numbers"):
        PoolType().convert(text, None, None)


@pytest.mark.parametrize("text, stream", [("7", 7), ("0x55d2c0", 0x55D2C0), (0, 0)])
def test_a_stream(text: object, stream: int) -> None:
    assert StreamType().convert(text, None, None) == stream


@pytest.mark.parametrize("text", ["", "x", "1.5"])
def test_no_stream(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not a stream: give its number"):
        StreamType().convert(text, None, None)
