"""Tests of commands/shared/size.py; what sizes are, test_sizes.py of selecting says."""

from __future__ import annotations

import click
import pytest

from memreplay.commands.shared.size import ShareType, SizeType


def test_a_size() -> None:
    assert SizeType().convert("80GiB", None, None) == 80 << 30
    assert SizeType().convert("80GB", None, None) == 80 * 10**9
    assert SizeType().convert(7, None, None) == 7


@pytest.mark.parametrize("text", ["", "x", "-1"])
def test_no_size(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not a size: give 38GiB"):
        SizeType().convert(text, None, None)


def test_a_bare_number() -> None:
    with pytest.raises(click.BadParameter, match="'8' has no unit: give 8GiB"):
        SizeType().convert("8", None, None)


def test_too_small_or_more_than_there_is() -> None:
    with pytest.raises(click.BadParameter, match="too large"):
        SizeType().convert("9999999999T", None, None)
    assert SizeType().convert("0", None, None) == 0
    with pytest.raises(click.BadParameter, match="'0' is too small here"):
        SizeType(least=1).convert("0", None, None)


def test_shares() -> None:
    assert ShareType().convert("2%", None, None) == 0.02
    assert ShareType().convert(0.25, None, None) == 0.25
    with pytest.raises(click.BadParameter, match="is not a percentage: give 2%"):
        ShareType().convert("0.02", None, None)
