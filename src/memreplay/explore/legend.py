"""The line that names the views, as tabs, and the marks below the curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip

from memreplay.explore.look import VIEWS, View
from memreplay.explore.widgets import SIGNS, Text

if TYPE_CHECKING:
    from textual.events import Click

    from memreplay.explore.explored import Marks
    from memreplay.explore.palette import Palette

NAMES = {
    "annotations": "annotation",
    "steps": "step",
    "peaks": "peak",
    "ooms": "failed request (o)",  # with its key, because the failure explains itself there
}
TABS: dict[View, str] = {view: f" {at} {view} " for at, view in enumerate(VIEWS, 1)}


class Chosen(NamedTuple):
    """What the line shows: the view, and the marks that this device has."""

    view: View
    marks: Marks


class Legend(Text):
    """The views as tabs, and what the marks mean.

    Textual's tabs would lay out the screen again for each change, which takes as long as drawing
    it.
    """

    DEFAULT_CSS = "Legend { height: 1; }"

    class Clicked(Message):
        """A tab was clicked."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view: View = view

    def draw(self, chosen: Chosen, palette: Palette) -> None:
        """Draw the line; the marks' meanings only as far as there's room."""
        tabs = [
            Segment(name, palette.tab if view == chosen.view else palette.dim)
            for view, name in TABS.items()
        ]
        words, room = "", self.size.width - sum(map(len, TABS.values())) - 1
        for kind, signs in reversed(SIGNS.items()):
            named = f"{signs[self.plain]} {NAMES[kind]}  "
            if getattr(chosen.marks, kind) and len(words) + len(named) <= room:
                words += named
        self.show([Strip([*tabs, Segment(f"{words.rstrip():>{max(room, 0)}}", palette.dim)])])

    def on_click(self, event: Click) -> None:
        x = event.x
        for view, name in TABS.items():
            if 0 <= x < len(name):
                self.post_message(self.Clicked(view))
            x -= len(name)
