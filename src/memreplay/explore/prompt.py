"""The line that is typed into, where a key asks for words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.widgets import Input


class Prompt(Input):
    """A line to type; Enter hands it over at once, so that keys after it are no part of it."""

    def __init__(self, done: Callable[[str], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.done = done

    async def action_submit(self) -> None:
        self.done(self.value)
