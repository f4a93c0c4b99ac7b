"""Tests of cli/size.py."""

from __future__ import annotations

import click
import pytest

from memreplay.cli.size import SizeType


@pytest.mark.parametrize(
    "text, size",
    [
        ("0", 0),
        ("4096", 4096),
        ("80GiB", 80 << 30),
        ("80 GiB", 80 << 30),
        ("64k", 64 << 10),
        ("1.5M", 3 << 19),
        ("2TB", 2 << 40),
        ("1B", 1),
        (7, 7),
    ],
)
def test_a_size(text: object, size: int) -> None:
    assert SizeType().convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "x", "-1", "GiB", "1e3", "1.5.2", "9" * 30])
def test_no_size(text: str) -> None:
    with pytest.raises(click.UsageError, match="is no size: give bytes, or a number with KiB"):
        SizeType().convert(text, None, None)


def test_more_than_there_is() -> None:
    with pytest.raises(click.UsageError, match="more than there is"):
        SizeType().convert("9999999999T", None, None)
