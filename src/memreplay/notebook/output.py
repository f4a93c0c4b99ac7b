"""The result of running a command in a cell."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memreplay.errors import UsageError
from memreplay.notebook.streams import CellText
from memreplay.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from memreplay.snapshot.page_view import PageView

_STYLES = re.compile(r"\x1b\[[\d;]*m")
_LONGEST = 80  # maximum length of the command line in a repr, in characters


@dataclass(frozen=True, repr=False)
class CommandOutput:
    """The value of `x = %memreplay …`.

    The cell already shows the output while the command runs, so displaying the value shows nothing.
    """

    arguments: tuple[str, ...]
    exit_code: int
    """Exit code, as in a shell: 0 is success."""
    styled: str
    """The output with colours."""
    stderr: str
    """Errors and notes."""
    page: PageView | None = None
    """The page written by `view`."""
    is_shown: Callable[[], bool] = lambda: False
    inline: bool = True

    @property
    def stdout(self) -> str:
        """The output as plain text."""
        return _STYLES.sub("", self.styled)

    def json(self) -> Any:
        """Parse the output of --json."""
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

        if self.is_shown():
            if not self.inline:
                sys.stdout.write(f"{self!r}\n")  # follows IPython's `Out[1]: `
            return
        if self.page is not None:
            from IPython.display import display

            display(self.page)  # type: ignore[no-untyped-call]
        out = CellText(sys.stdout, shows_colour=True, columns=0)
        out.write(self.styled)
        out.end()
        sys.stderr.write(self.stderr)
