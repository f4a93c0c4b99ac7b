"""Draw a curve with text characters, as a filled area with a minimum and maximum per column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

Chars = Literal["braille", "blocks", "ascii"]
# Number of columns per cell.
FINE: dict[Chars, int] = {"braille": 2, "blocks": 1, "ascii": 1}
_LEVELS: dict[Chars, int] = {"braille": 4, "blocks": 8, "ascii": 2}
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII = " .:"
# The dots of a braille cell, from the bottom up.
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))


class Cells(NamedTuple):
    """A line of the plot.

    A flag is true if the cell is filled all the time, and false if it's filled only part of the
    time.
    """

    text: str
    always: tuple[bool, ...]


def picture(
    lows: Sequence[int], highs: Sequence[int], top: int, height: int, chars: Chars
) -> list[Cells]:
    """Draw the lines, topmost first.

    `top` is the value at the upper edge. `lows` and `highs` have `FINE` values per cell.
    """
    fine, levels = FINE[chars], _LEVELS[chars]
    steps = height * levels
    tall = [_step(high, top, steps) for high in highs]
    sure = [_step(low, top, steps) for low in lows]
    lines = []
    for line in range(height):
        floor = (height - 1 - line) * levels
        text, always = [], []
        for at in range(0, len(tall), fine):
            filled = [min(max(one - floor, 0), levels) for one in tall[at : at + fine]]
            text.append(_cell(filled, chars))
            always.append(all(one > floor for one in sure[at : at + fine]))
        lines.append(Cells("".join(text), tuple(always)))
    return lines


def _step(n_bytes: int, top: int, steps: int) -> int:
    """Return the number of filled steps: at least one unless the value is 0."""
    if n_bytes <= 0 or top <= 0:
        return 0
    return max(min(-(-n_bytes * steps // top), steps), 1)


def _cell(filled: Sequence[int], chars: Chars) -> str:
    if chars == "blocks":
        return _BLOCKS[filled[0]]
    if chars == "ascii":
        return _ASCII[filled[0]]
    dots = 0
    for side, count in zip(_DOTS, filled, strict=False):
        for dot in side[:count]:
            dots |= dot
    return chr(0x2800 + dots)
