"""The palette of all actions: Textual's, which fails for some keys while it opens and closes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from textual.await_complete import AwaitComplete
from textual.command import CommandPalette
from textual.errors import NoWidget
from textual.geometry import Region
from textual.widget import Widget


class Commands(CommandPalette):
    """Textual's palette for a keyboard that's faster than it."""

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close the palette, unless an earlier key already did."""
        if self not in self.app.screen_stack:
            return AwaitComplete()
        return super().dismiss(result)

    def _action_command_list(self, action: str) -> None:
        """Move in the list, unless it isn't laid out yet."""
        with suppress(KeyError):
            super()._action_command_list(action)

    def get_widget_at(self, x: int, y: int) -> tuple[Widget, Region]:
        """Return the widget at a position, which is outside if the terminal got smaller."""
        try:
            return super().get_widget_at(x, y)
        except NoWidget:
            return self, Region()
