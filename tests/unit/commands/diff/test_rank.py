"""Tests of commands/diff/rank.py."""

from __future__ import annotations

import pytest

from memreplay.commands.diff.rank import parse_rank
from memreplay.errors import UsageError


@pytest.mark.parametrize("text, rank", [("0", 0), (" 12 ", 12), ("worst", "worst")])
def test_ranks_are_parsed(text: str, rank: int | str) -> None:
    assert parse_rank(text) == rank


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "9" * 10, "٣"])
def test_invalid_ranks_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a rank; give its number, or worst"):
        parse_rank(text)
