"""`%load_ext memreplay`: the magics and their completion."""

from __future__ import annotations

from functools import partial
from typing import Any

from memreplay.errors import MemreplayError
from memreplay.notebook.completing import complete
from memreplay.notebook.output import CommandOutput
from memreplay.notebook.running import run, split

NAME = "memreplay"


def load(shell: Any) -> None:
    """Register `%memreplay` and `%%memreplay` in an IPython shell."""
    magics = Magics(shell)
    shell.register_magic_function(magics.line, "line", NAME)
    shell.register_magic_function(magics.cell, "cell", NAME)
    for word in (f"%{NAME}", f"%%{NAME}"):
        if word not in _hooked(shell):
            shell.set_hook("complete_command", complete, str_key=word)


def unload(shell: Any) -> None:
    """Unregister the magics."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(NAME, None)


def _hooked(shell: Any) -> set[str]:
    hooks = getattr(shell.Completer, "custom_completers", None)
    return set(getattr(hooks, "strs", ()))


class Magics:
    """Both magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._recorder: Any = None

    @property
    def inline(self) -> bool:
        """Whether cells can show pages and colours, as in a notebook."""
        return getattr(self._shell, "kernel", None) is not None

    def line(self, line: str) -> CommandOutput | None:
        """Run a memreplay command in this process: %memreplay peak snap.pkl --top 5

        The line is split like a shell's, without patterns; {name} and $name are variables. The
        output is shown and also returned: .stdout, .json(), .exit_code. %memreplay --help lists the
        commands; help(memreplay) shows the Python API.
        """
        try:
            return self._run(split(line))
        except MemreplayError as error:
            raise _usage(error) from None

    def cell(self, line: str, cell: str) -> None:
        """Record how the cell uses a CUDA or XPU device's memory, and report it.

        %%memreplay --help lists the options. Needs PyTorch and such a device.
        """
        # Imported late, because most notebooks only read files.
        from memreplay.notebook.recording import CellRecorder, parse_options

        if self._recorder is None:
            self._recorder = CellRecorder(self._shell, self._run)
        try:
            asked = parse_options(line)
            if asked is not None:
                self._recorder.record(asked, cell)
        except MemreplayError as error:
            raise _usage(error) from None

    def _run(self, words: tuple[str, ...]) -> CommandOutput:
        count = self._shell.execution_count
        return run(words, inline=self.inline, is_shown=partial(self._is_cell, count))

    def _is_cell(self, count: int) -> bool:
        return bool(self._shell.execution_count == count)


def _usage(error: MemreplayError) -> Exception:
    """Return the error that IPython prints in one line, without a traceback."""
    from IPython.core.error import UsageError

    return UsageError(str(error))
