"""A command that ran in a cell: what it wrote, and how it ended."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Any

from memreplay.errors import UsageError
from memreplay.notebook.streams import CellText
from memreplay.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from memreplay.snapshot.page_view import PageView

_STYLES = re.compile(r"\x1b\[[\d;]*m")
_LONGEST = 80  # letters of a command line in a repr


class Ran:
    """What `x = %memreplay …` gives.

    A cell shows it while it runs; that it is the cell's value, too, shows nothing once more.
    """

    def __init__(
        self,
        arguments: tuple[str, ...],
        exit_code: int,
        styled: str,
        stderr: str,
        page: PageView | None = None,
        is_shown: Callable[[], bool] = lambda: False,
        inline: bool = True,
    ) -> None:
        self.arguments = arguments
        self.exit_code = exit_code
        """As of the command in a shell: 0 is fine."""
        self.styled = styled
        """What it wrote, with colours."""
        self.stderr = stderr
        """Errors and notes."""
        self.page = page
        """What `view` made."""
        self._is_shown = is_shown
        self._inline = inline

    @property
    def stdout(self) -> str:
        """What it wrote, as plain text."""
        return _STYLES.sub("", self.styled)

    def json(self) -> Any:
        """What it wrote with --json, read."""
        try:
            return json.loads(self.stdout)
        except ValueError:
            raise UsageError(
                f"{self!r} wrote no JSON; give --json to a command that has it"
            ) from None

    def __str__(self) -> str:
        return self.stdout

    def __repr__(self) -> str:
        words = shlex.join(("memreplay", *self.arguments))
        words = clean(words)
        if len(words) > _LONGEST:
            words = f"{words[: _LONGEST - 1]}…"
        return f"<{words}: exit code {self.exit_code}>"

    def _ipython_display_(self) -> None:
        import sys

        if self._is_shown():
            if not self._inline:
                sys.stdout.write(f"{self!r}\n")  # after IPython's `Out[1]: `
            return
        if self.page is not None:
            from IPython.display import display

            display(self.page)  # type: ignore[no-untyped-call]
        out = CellText(sys.stdout, shows_colour=True, columns=0)
        out.write(self.styled)
        out.end()
        sys.stderr.write(self.stderr)
