"""The last line: the most important keys, or a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from textual.strip import Strip

from memreplay.explore.keys import KEYS, Key, label
from memreplay.explore.widgets import Text

if TYPE_CHECKING:
    from memreplay.explore.palette import Palette


class Foot(Text):
    """The most important keys, as many as fit, or a message."""

    DEFAULT_CSS = "Foot { height: 1; }"

    def __init__(self, plain: bool = False, keys: Sequence[Key] = KEYS, **kwargs: Any) -> None:
        super().__init__(plain, **kwargs)
        self.keys = keys

    def draw(self, said: str, palette: Palette) -> None:
        """Draw the message, or the keys if it's empty."""
        if said:
            self.show([Strip([Segment(f" {said}", palette.own)])])
            return
        keys = sorted((key for key in self.keys if key.footer), key=lambda key: -key.weight)
        named = [(label(key, plain=self.plain), key.footer) for key in keys]
        last, room = named[-2:], self.size.width  # always show help and quit
        room -= sum(len(name) + len(word) + 3 for name, word in last)
        shown = []
        for name, word in named[:-2]:
            room -= len(name) + len(word) + 3
            if room < 0:
                break
            shown.append((name, word))
        self.show(
            [
                Strip(
                    [
                        segment
                        for name, word in (*shown, *last)
                        for segment in (
                            Segment(f" {name}", palette.own),
                            Segment(f" {word} ", palette.dim),
                        )
                    ]
                )
            ]
        )
