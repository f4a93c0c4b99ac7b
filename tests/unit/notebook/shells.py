"""IPython's shell for tests, as in a terminal or as in a notebook's kernel."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pytest

IPython = pytest.importorskip("IPython")


class Cell(NamedTuple):
    """A cell's result."""

    out: str
    err: str
    shown: list[Any]
    error: BaseException | None


class Shell:
    """A shell that runs cells when called."""

    def __init__(self, *, notebook: bool) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        self.ipython: Any = cast("Any", InteractiveShell)(config=config)
        self.ipython.kernel = object() if notebook else None
        self.ipython.run_line_magic("load_ext", "memreplay")

    def __call__(self, code: str) -> Cell:
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.utils.capture import capture_output

        shells = cast("Any", InteractiveShell)
        shells._instance = self.ipython  # used by `display`
        try:
            with capture_output() as seen:
                result = self.ipython.run_cell(code, store_history=True)
        finally:
            shells._instance = None
        return Cell(seen.stdout, seen.stderr, seen.outputs, result.error_in_exec)

    def complete(self, line: str) -> list[str]:
        """Return IPython's completions of the last word."""
        from IPython.core.completer import provisionalcompleter

        with provisionalcompleter():
            found = self.ipython.Completer.completions(line, len(line))
            return [one.text for one in found]
