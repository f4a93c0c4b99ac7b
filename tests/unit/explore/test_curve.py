"""Tests of explore/curve.py: the height of each column of a curve."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.explore.curve import FINE, Chars, picture

LEVELS: dict[Chars, int] = {"braille": 4, "blocks": 8, "ascii": 2}


def tall(lines: list[str], chars: Chars) -> list[int]:
    """Return the number of filled cells in each column."""
    found = []
    for at in range(len(lines[0]) * FINE[chars]):
        steps = 0
        for line in lines:
            cell = line[at // FINE[chars]]
            if chars == "blocks":
                steps += " ▁▂▃▄▅▆▇█".index(cell)
            elif chars == "ascii":
                steps += " .:".index(cell)
            else:
                side = (0x40, 0x04, 0x02, 0x01) if at % 2 == 0 else (0x80, 0x20, 0x10, 0x08)
                steps += sum(bool((ord(cell) - 0x2800) & dot) for dot in side)
        found.append(steps)
    return found


@given(
    st.sampled_from(["braille", "blocks", "ascii"]),
    st.lists(st.integers(0, 10**13), min_size=2, max_size=20),
    st.integers(1, 12),
    st.data(),
)
def test_column_height_matches_its_value(
    chars: Chars, highs: list[int], height: int, data: st.DataObject
) -> None:
    highs = highs[: len(highs) // 2 * 2]
    lows = [data.draw(st.integers(0, high)) for high in highs]
    top = max([*highs, 1])
    lines = picture(lows, highs, top, height, chars)
    assert len(lines) == height
    steps = height * LEVELS[chars]
    for high, found in zip(highs, tall([line.text for line in lines], chars), strict=True):
        assert found == (0 if high == 0 else max(1, -(-high * steps // top)))
    for at, line in enumerate(lines):
        floor = (height - 1 - at) * LEVELS[chars]
        for cell, always in enumerate(line.always):
            mine = lows[cell * FINE[chars] : (cell + 1) * FINE[chars]]
            assert always == all(low * steps > floor * top for low in mine)


def test_ascii_uses_only_ascii() -> None:
    lines = picture([0, 5], [10, 7], 10, 3, "ascii")
    assert [line.text for line in lines] == [":.", "::", "::"]
    assert all(line.text.isascii() for line in lines)


@pytest.mark.parametrize("chars", ["braille", "blocks", "ascii"])
def test_zero_is_empty(chars: Chars) -> None:
    (line,) = picture([0, 0], [0, 0], 1, 1, chars)
    assert line.text.strip(" ⠀") == ""
