"""The screen that lists all keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.strip import Strip

from memreplay.explore.keys import Key, short
from memreplay.explore.palette import Palette
from memreplay.explore.rows.row import Tone
from memreplay.explore.widgets import Text
from memreplay.render.fit import cell_width, wrap

COLUMN = 38  # minimum width of a column
NAMES = 15  # of which the keys take this much
Lines = list[list[tuple[str, Tone]]]


class KeysScreen(ModalScreen[None]):
    """All keys in columns, on as many pages as needed. Any other key closes it."""

    CSS = """
    KeysScreen { align: center middle; }
    #keys { width: 100%; height: 100%; padding: 0 1; background: $surface; }
    """
    # The keys have priority, so that each key is handled before the next one is read. Otherwise,
    # the next key would wait in this screen's queue and be lost when the screen closes.
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape,q,question_mark,enter,f1", "dismiss", "close", priority=True),
        Binding("right,down,space,pagedown,tab,l,j", "page(1)", "next page", priority=True),
        Binding("left,up,pageup,shift+tab,h,k", "page(-1)", "previous page", priority=True),
    ]

    def __init__(self, keys: Sequence[Key], palette: Palette, *, plain: bool) -> None:
        super().__init__()
        self.keys, self.palette, self.page = keys, palette, 0
        self.text = Text(plain, id="keys")

    def compose(self) -> ComposeResult:
        yield self.text

    def on_text_resized(self) -> None:
        self.draw()

    def action_page(self, by: int) -> None:
        self.page += by
        self.draw()

    def draw(self) -> None:
        """Draw the page."""
        width, rows = self.text.size.width, self.text.size.height - 1
        if width < 1 or rows < 1:
            return
        columns = max((width + 2) // (COLUMN + 2), 1)
        wide = (width + 2) // columns - 2
        listed = in_columns(self.keys, wide, rows)
        pages = -(-len(listed) // columns)
        self.page = min(max(self.page, 0), pages - 1)
        shown = listed[self.page * columns : (self.page + 1) * columns]
        strips = []
        for row in range(rows):
            segments = []
            for column in shown:
                parts = column[row] if row < len(column) else []
                segments += [Segment(text, self.palette.tone(tone)) for text, tone in parts]
                used = sum(cell_width(text) for text, _ in parts)
                segments.append(Segment(" " * (wide + 2 - used)))
            strips.append(Strip(segments))
        words = "^F is Ctrl+F   esc closes this"
        if pages > 1:
            words = f"page {self.page + 1} of {pages}   left and right turn pages   {words}"
        self.text.show([*strips, Strip([Segment(words, self.palette.dim)])])


def in_columns(keys: Sequence[Key], width: int, rows: int) -> list[Lines]:
    """Return the keys by group, in columns of at most `rows` lines of `width` cells.

    A key isn't divided between columns, and a group's name isn't the last line of one.
    """
    found: list[Lines] = [[]]
    for group, members in groupby(keys, key=lambda key: key.group):
        heading: Lines = [[(group, "title")]]
        for key in members:
            entry = [*heading, *_entry(key, width)]
            heading = []
            if len(found[-1]) + len(entry) > rows and found[-1]:
                found.append([])
            found[-1] += entry
        if len(found[-1]) < rows:
            found[-1].append([])
    return found


def _entry(key: Key, width: int) -> Lines:
    """Return a key's lines: the keys, and beside them what they do."""
    first, *more = wrap(key.words, max(width - NAMES, 12))
    lines: Lines = [[(f"{short(key.keys):<{NAMES}}", "own"), (first, "plain")]]
    return lines + [[(" " * NAMES + one, "plain")] for one in more]
