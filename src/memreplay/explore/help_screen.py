"""The screen that lists all keys."""

from __future__ import annotations

from itertools import groupby
from typing import Any, ClassVar

from rich.table import Table
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from memreplay.explore.keys import KEYS, spelled


class KeysScreen(ModalScreen[None]):
    """A screen that any key closes unless it scrolls."""

    CSS = """
    KeysScreen { align: center middle; }
    #keys { width: 84; max-width: 100%; height: 90%; padding: 0 1; background: $surface; }
    """
    # The keys have priority, so that each key is handled before the next one is read. Otherwise,
    # the next key would wait in this screen's queue and be lost when the screen closes.
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape,q,question_mark,enter,f1", "dismiss", "close", priority=True)
    ]

    def compose(self) -> ComposeResult:
        table = Table.grid(padding=(0, 2))
        for group, keys in groupby(KEYS, key=lambda key: key.group):
            table.add_row(f"[bold]{group}[/bold]", "")
            for key in keys:
                table.add_row(spelled(key.keys).replace("[", r"\["), key.words)
        with VerticalScroll(id="keys"):
            yield Static(table)
