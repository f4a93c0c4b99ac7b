"""The input line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.widgets import Input


class Prompt(Input):
    """An input line that passes on its text on Enter, before later keys are read."""

    def __init__(self, done: Callable[[str], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.done = done

    async def action_submit(self) -> None:
        self.done(self.value)
