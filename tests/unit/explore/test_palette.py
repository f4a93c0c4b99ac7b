"""Tests of explore/palette.py: colours mean the same on terminals that have fewer of them."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem
from rich.style import Style

from memreplay.explore.palette import palette_of

RED, BLUE = {1, 9}, {4, 12}


def in_16(style: Style) -> int | None:
    assert style.color is not None
    return style.color.downgrade(ColorSystem.STANDARD).number


@pytest.mark.parametrize("dark", [True, False])
def test_increases_are_red_and_decreases_blue_in_16_colours(dark: bool) -> None:
    palette = palette_of(dark=dark, plain=False)
    assert in_16(palette.rose) in RED
    assert in_16(palette.fell) in BLUE
    assert in_16(palette.sure) in BLUE
    # the highest and the lowest values of a column stay told apart
    assert in_16(palette.sure) != in_16(palette.high)


@pytest.mark.parametrize("dark", [True, False])
def test_colours_differ_in_256_colours(dark: bool) -> None:
    palette = palette_of(dark=dark, plain=False)
    for styles in (
        (palette.rose, palette.fell, palette.dim),
        (palette.sure, palette.high, palette.dim),
    ):
        found = [one.color.downgrade(ColorSystem.EIGHT_BIT).number for one in styles if one.color]
        assert len({*found}) == len(styles)
