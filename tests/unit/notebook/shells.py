"""IPython's shell for tests: as in a terminal, or as a notebook's kernel has it."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pytest

IPython = pytest.importorskip("IPython")


class Cell(NamedTuple):
    """What came of a cell."""

    out: str
    err: str
    shown: list[Any]
    error: BaseException | None


class Shell:
    """A shell, whose cells are run by calling it."""

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
        shells._instance = self.ipython  # whom `display` asks
        try:
            with capture_output() as seen:
                result = self.ipython.run_cell(code, store_history=True)
        finally:
            shells._instance = None
        return Cell(seen.stdout, seen.stderr, seen.outputs, result.error_in_exec)

    def complete(self, line: str) -> list[str]:
        """What IPython offers for the last word."""
        from IPython.core.completer import provisionalcompleter

        with provisionalcompleter():
            found = self.ipython.Completer.completions(line, len(line))
            return [one.text for one in found]
