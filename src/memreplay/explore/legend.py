"""The line that names the views, as tabs, and the marks below the curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.segment import Segment
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.strip import Strip
from textual.widgets import Tab, Tabs

from memreplay.explore.look import VIEWS, View
from memreplay.explore.widgets import SIGNS, Text

if TYPE_CHECKING:
    from memreplay.explore.explored import Marks
    from memreplay.explore.palette import Palette

NAMES = {
    "annotations": "annotation",
    "steps": "step",
    "peaks": "peak",
    "ooms": "failed request (o)",  # with its key, because the failure explains itself there
}


class Chosen(NamedTuple):
    """What the line shows: the view, and the marks that this device has."""

    view: View
    marks: Marks


class Legend(Horizontal):
    """The views as tabs, and what the marks mean."""

    DEFAULT_CSS = """
    Legend { height: 1; }
    Legend Tabs { height: 1; }
    Legend Underline { display: none; }
    Legend Tab.-active { text-style: bold reverse; }
    Legend Text { width: 1fr; }
    """

    def __init__(self, plain: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        names = {view: f"{at} {view}" for at, view in enumerate(VIEWS, 1)}
        self.tabs = Tabs(*(Tab(name, id=view) for view, name in names.items()))
        self.tabs.styles.width = sum(len(name) + 2 for name in names.values())
        self.signs = Text(plain)
        self.tabs.can_focus = False
        self.plain = plain

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield self.signs

    def draw(self, chosen: Chosen, palette: Palette) -> None:
        """Draw the line; the marks' meanings only as far as there's room."""
        with self.prevent(Tabs.TabActivated):
            self.tabs.active = chosen.view
        words, room = "", self.signs.size.width - 1
        for kind, signs in reversed(SIGNS.items()):
            named = f"{signs[self.plain]} {NAMES[kind]}  "
            if getattr(chosen.marks, kind) and len(words) + len(named) <= room:
                words += named
        self.signs.show([Strip([Segment(f"{words.rstrip():>{max(room, 0)}}", palette.dim)])])
