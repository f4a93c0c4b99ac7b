"""Tests of commands/shared/limit.py."""

from __future__ import annotations

import click
import pytest

from memreplay.commands.shared.limit import NAMES, LimitType
from memreplay.io.limits import Limits


def test_the_names_are_those_of_the_library() -> None:
    assert Limits.__struct_fields__ == NAMES


@pytest.mark.parametrize(
    "text, value",
    [
        ("string_bytes=128M", ("string_bytes", 128 << 20)),
        ("memo_entries=7", ("memo_entries", 7)),
        ("kept_values=2K", ("kept_values", 2048)),
        ("stack_values=1G", ("stack_values", 1 << 30)),
        ("rows=5M", ("rows", 5 << 20)),
        ("devices=2000", ("devices", 2000)),
    ],
)
def test_limits(text: str, value: tuple[str, int]) -> None:
    assert LimitType().convert(text, None, None) == value
    assert LimitType().convert(value, None, None) == value


@pytest.mark.parametrize("text", ["", "x=1", "string_bytes", "string_bytes=-1", "string_bytes=1T"])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a limit"):
        LimitType().convert(text, None, None)


def test_what_is_no_number() -> None:
    with pytest.raises(click.BadParameter, match="a number from 1"):
        LimitType().convert("string_bytes=0", None, None)
