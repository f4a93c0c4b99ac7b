"""The selected row's details, which scroll."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.strip import Strip

from memreplay.explore.widgets import Text

if TYPE_CHECKING:
    from memreplay.explore.palette import Palette
    from memreplay.explore.rows.row import Tone


class Details(VerticalScroll, can_focus=False):
    """Lines of text that scroll by keys and by the wheel."""

    DEFAULT_CSS = """
    Details { scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    Details > Text { width: 1fr; }
    """

    def __init__(self, plain: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.text = Text(plain)
        self.key: Hashable = None
        if plain:  # scrollbars need Unicode
            self.styles.scrollbar_visibility = "hidden"

    def compose(self) -> ComposeResult:
        yield self.text

    @property
    def room(self) -> int:
        """Width of a line."""
        return self.scrollable_content_region.width

    def draw(self, key: Hashable, lines: Sequence[tuple[str, Tone]], palette: Palette) -> None:
        """Draw the details of the row with this key, from the top if it's another one."""
        self.text.styles.height = max(len(lines), 1)
        self.text.show([Strip([Segment(text, palette.tone(tone))]) for text, tone in lines])
        if key != self.key:
            self.key = key
            self.scroll_home(animate=False)
