"""Tests of commands/diff/rank.py."""

from __future__ import annotations

import click
import pytest

from memreplay.commands.diff.rank import RankType


@pytest.mark.parametrize("text, rank", [("0", 0), (" 12 ", 12), ("worst", "worst")])
def test_ranks(text: str, rank: int | str) -> None:
    assert RankType().convert(text, None, None) == rank


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "9" * 10, "٣"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not a rank: give its number, or worst"):
        RankType().convert(text, None, None)
