"""A snapshot's part of the screen: its name, curve and cursor line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.strip import Strip

from memreplay.explore.axis import column_ticks
from memreplay.explore.describing import Describer
from memreplay.explore.widgets import CurveView, Plot, Text

if TYPE_CHECKING:
    from memreplay.explore.curve import Chars
    from memreplay.explore.explored import Explored
    from memreplay.explore.look import Look
    from memreplay.explore.palette import Palette


class Pane(Vertical):
    """One snapshot and its view."""

    DEFAULT_CSS = """
    Pane { height: 1fr; }
    Pane > .line { height: 1; }
    Pane > CurveView { height: 1fr; min-height: 3; }
    """

    def __init__(
        self,
        explored: Explored,
        looked: Look,
        file: str,
        read: tuple[str, ...] = (),
        chars: Chars = "blocks",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        plain = chars == "ascii"
        self.explored, self.looked, self.file, self.read = explored, looked, file, read
        self.describer = Describer(explored, plain=plain)
        self.head, self.cursor_line = Text(plain, classes="line"), Text(plain, classes="line")
        self.card_line = Text(plain, classes="line")
        self.curve = CurveView(chars)

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.curve
        yield self.cursor_line
        yield self.card_line

    @property
    def peak(self) -> int:
        """The measure's peak in bytes."""
        return self.explored.peak(self.looked).bytes

    def draw(self, palette: Palette, top: int, *, active: bool) -> None:
        """Draw the pane. `top`: the value at the curve's upper edge, unless the view has another.
        `active`: whether the pane has the focus.
        """
        look, explored, width = self.looked, self.explored, self.size.width
        style = palette.title if active else palette.dim
        self.head.show([Strip([Segment(self.describer.head(look, self.file, width), style)])])
        columns = self.curve.columns
        bounds = [one for one in (look.begin, look.end) if one is not None]
        cells = [
            explored.column(look, columns, min(max(one, look.first), look.last)) for one in bounds
        ]
        low, high = look.lens or (0, max(top, 1))
        plot = Plot(
            explored.curve(look, columns),
            look.first,
            low,
            high,
            column_ticks(explored, look, columns, self.curve.cells),
            explored.marks(look),
            explored.column(look, columns, look.event),
            (min(cells), max(cells)) if cells else None,
        )
        self.curve.draw(plot, palette)
        words = self.describer.cursor(look, width)
        self.cursor_line.show([Strip([Segment(words, palette.own if active else palette.dim)])])
        card = explored.card_at(look, width - 1)
        self.card_line.display = bool(card)
        self.card_line.show([Strip([Segment(f" {card}", palette.dim)])])
