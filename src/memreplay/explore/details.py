"""The selected row's details, which scroll."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from memreplay.explore.widgets import Text, in_ascii

if TYPE_CHECKING:
    from textual.css.types import ScrollbarVisibility

    from memreplay.explore.palette import Palette
    from memreplay.explore.rows.row import Tone


class Details(ScrollView, can_focus=False):
    """Lines of text that scroll by keys and by the wheel."""

    DEFAULT_CSS = """
    Details { overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    """

    def __init__(self, plain: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plain = plain
        self.lines: list[Strip] = []
        self.key: Hashable = None
        self.base = Style.null()

    def on_resize(self) -> None:
        self.post_message(Text.Resized())

    @property
    def room(self) -> int:
        """Width of a line."""
        return self.scrollable_content_region.width

    def draw(self, key: Hashable, lines: Sequence[tuple[str, Tone]], palette: Palette) -> None:
        """Draw the details of the row with this key, from the top if it's another one."""
        strips = [Strip([Segment(text, palette.tone(tone))]) for text, tone in lines]
        self.lines, before = [in_ascii(one) if self.plain else one for one in strips], self.lines
        # A new size lays out the whole screen, so it stays the same for lines that fit.
        self.virtual_size = Size(max(self.room, 1), max(len(self.lines), self.size.height))
        # Textual keeps a scrollbar that isn't needed any more if the room changed, and draws it
        # with characters that ASCII lacks.
        is_long = len(self.lines) > self.size.height and not self.plain
        visibility: ScrollbarVisibility = "visible" if is_long else "hidden"
        if self.styles.scrollbar_visibility != visibility:
            self.styles.scrollbar_visibility = visibility
        if key != self.key:
            self.key = key
            self.scroll_to(y=0, animate=False, immediate=True)
        for y, (old, new) in enumerate(zip_longest(before, self.lines)):
            if old != new:
                self.refresh_lines(y)

    def render_lines(self, crop: Region) -> list[Strip]:
        self.base = self.rich_style  # takes as long as drawing a line
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        at, width, base = y + round(self.scroll_y), self.room, self.base
        if at < len(self.lines):
            return self.lines[at].adjust_cell_length(width).apply_style(base)
        return Strip.blank(width, base)
