"""`%%memreplay`: record a cell on a GPU and report it."""

from __future__ import annotations

import ast
import os
import tempfile
from collections.abc import Callable
from typing import Annotated, Any

import click

from memreplay.commands.shared.declaring import as_command
from memreplay.commands.shared.output import Force
from memreplay.commands.shared.recording import RecordingOptions
from memreplay.declared import Opt
from memreplay.errors import UsageError
from memreplay.notebook.running import split
from memreplay.recording.logs import tell
from memreplay.recording.session import Session, Wanted

NAME = "cell.pickle"


class CellOptions(RecordingOptions, frozen=True):
    """How to record, where to write, and which command to run afterwards."""

    model: Annotated[tuple[str, ...], Opt("An existing model.", "NAME")] = ()
    optimizer: Annotated[tuple[str, ...], Opt("An existing optimizer.", "NAME")] = ()
    show: Annotated[
        str,
        Opt("The command to run on the snapshot, without FILE (peak --top 5).", "COMMAND"),
    ] = "report"
    output: Annotated[
        str | None,
        Opt(
            "Write the snapshot to this file (default: a temporary file, deleted with the kernel).",
            "OUT",
            short="-o",
            path="file",
        ),
    ] = None
    force: Force = False


@as_command(
    "%%memreplay",
    examples=(
        "%%memreplay",
        '%%memreplay --model model --optimizer optimizer --show "peak --by module"',
        "%%memreplay -o step.pickle.gz --show view",
    ),
    context={"max_content_width": 100},
)
def options(options: CellOptions) -> CellOptions:
    """Record what this cell does to the memory of a CUDA or XPU device, and report it.

    Needs PyTorch and such a device.
    """
    return options


def parse_options(line: str) -> CellOptions | None:
    """Parse the options in the cell's first line.

    Return None for help, which is printed. Raises UsageError.
    """
    try:
        with options.make_context("%%memreplay", list(split(line))) as context:
            found: CellOptions = options.callback(**context.params)  # type: ignore[misc]
            return found
    except click.exceptions.Exit:
        return None
    except click.ClickException as error:
        raise UsageError(error.format_message()) from None


class CellRecorder:
    """Records one shell's cells. A snapshot without a name is kept until the next one."""

    def __init__(self, shell: Any, show: Callable[[tuple[str, ...]], object]) -> None:
        self._shell = shell
        self._show = show
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def record(self, asked: CellOptions, cell: str) -> None:
        """Run and record the cell. The cell's exceptions are raised again after the report."""
        first, *rest = split(asked.show) or ("report",)
        wanted = Wanted(
            asked.output or self._passing(),
            model=self._named(asked.model),
            optimizer=self._named(asked.optimizer),
            stacks=asked.stacks,
            max_entries=asked.max_entries,
            source=asked.source,
            overwrite=asked.force or asked.output is None,
        )
        session = Session(wanted, tell)
        began = False
        try:
            with session:
                began = True
                run_cell(self._shell, cell)
        finally:
            if began and os.path.exists(session.path):
                self._show((first, session.path, *rest))

    def _passing(self) -> str:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="memreplay-")
        return os.path.join(self._folder.name, NAME)

    def _named(self, names: tuple[str, ...]) -> list[Any]:
        for name in names:
            if name not in self._shell.user_ns:
                raise UsageError(f"{name}: the notebook has no variable with this name")
        return [self._shell.user_ns[name] for name in names]


def run_cell(shell: Any, cell: str) -> None:
    """Run a cell's code. A final expression becomes the cell's value."""
    source = shell.transform_cell(cell)
    name = shell.compile.cache(source, shell.execution_count, raw_code=cell)
    body = shell.transform_ast(shell.compile.ast_parse(source, filename=name)).body
    last = [body.pop()] if body and isinstance(body[-1], ast.Expr) else []
    exec(shell.compile(ast.Module(body, []), name, "exec"), shell.user_global_ns, shell.user_ns)
    if last:
        shown = shell.compile(ast.Interactive(last), name, "single")
        exec(shown, shell.user_global_ns, shell.user_ns)
