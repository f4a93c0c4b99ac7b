"""The terminal explorer: keys change the view, and the engine computes it.

Needs Textual, unlike the memreplay modules that it imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding

from memreplay.explore import look as looks
from memreplay.explore.actions import Actions
from memreplay.explore.keys import KEYS, spelled
from memreplay.explore.legend import Legend
from memreplay.explore.widgets import CurveView, RowsView

if TYPE_CHECKING:
    from textual.screen import Screen


class Explorer(Actions):
    """Explore one snapshot, or two side by side."""

    # The keys have priority, so that each key is handled before the next one is read. A key typed
    # right after / therefore becomes part of the text.
    BINDINGS: ClassVar[list[Any]] = [
        Binding(one, "leave" if one == "q" else key.action, key.words, show=False, priority=True)
        for key in KEYS
        for one in key.keys.split(",")
    ]

    # ---- mouse

    def on_curve_view_chosen(self, message: CurveView.Chosen) -> None:
        if message.view is not self.curve:
            self.action_other()
        look = self.looked
        event = self.explored.event_of(look, self.curve.columns, message.column)
        self.show(looks.moved(look, event, *self.bounds))

    def on_curve_view_wheeled(self, message: CurveView.Wheeled) -> None:
        self.action_zoom(2 if message.by > 0 else 0.5)

    def on_rows_view_chosen(self, message: RowsView.Chosen) -> None:
        if message.row == self.rows.row:
            self.action_open_row()
        else:
            self.choose(message.row)

    def on_legend_clicked(self, message: Legend.Clicked) -> None:
        self.action_views(message.view)

    # ---- palette

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:  # noqa: ARG002
        for key in KEYS:
            words = f"{key.words[0].upper()}{key.words[1:]}"
            yield SystemCommand(words, spelled(key.keys), self._does(key.action))
        dark = self.current_theme.dark
        yield SystemCommand(
            "Light colours" if dark else "Dark colours", "the theme", self.action_theme
        )

    def action_command_palette(self) -> None:
        from memreplay.explore.command_palette import Commands  # imported late: rarely used

        if not isinstance(self.screen, Commands):
            self.push_screen(Commands(id="--command-palette"))

    def _does(self, action: str) -> Callable[[], Any]:
        async def do() -> None:
            await self.run_action(action)

        return lambda: self.call_later(do)

    def action_theme(self) -> None:
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"
        self.call_after_refresh(self.draw)
