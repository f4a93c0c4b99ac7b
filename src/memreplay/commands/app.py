"""The group of subcommands. A subcommand is only imported when it's invoked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from memreplay.commands.shared.errors import catching
from memreplay.commands.shared.exits import ALL_EXIT_CODES
from memreplay.commands.shared.helping import help_option
from memreplay.commands.shared.listed import COMMANDS, SECTIONS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The command to run if only a file is given.
FIRST = "report"
_SHORT = "memreplay.short"  # whether the file was given without a command
_SCREENS = ("view", "explore")  # commands whose answer isn't a text
_SHOWN = 3  # number of commands that an error names
_HELP = help_option()


class App(click.Group):
    """A click group of the `COMMANDS`. This is the only place where errors become exit codes."""

    def get_help_option(self, ctx: click.Context) -> click.Option:  # noqa: ARG002
        """Return the option --help, as commands have it."""
        return _HELP

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the commands' names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command and return it; None if it doesn't exist."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"memreplay.commands.{cmd_name}.command").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's method, but if a snapshot is given instead of a command, run a report on it.

        For any other unknown name, suggest a similar command.
        """
        name = args[0] if args else ""
        if name not in COMMANDS and _is_snapshot(name):
            ctx.meta[_SHORT] = True
            return super().resolve_command(ctx, [FIRST, *args])
        wrong = name and name not in COMMANDS and not name.startswith("-")
        if wrong and not ctx.resilient_parsing:  # but don't report it during shell completion
            ctx.fail(f"No such command {name!r}; {_meant(name)}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the commands below their headings without importing them."""
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", words) for name, words in names.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands, or files if no command matches."""
        found = super().shell_complete(ctx, incomplete)
        if found or incomplete.startswith("-"):
            return found
        # Imported late: only for shell completion.
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Like click's method, but handle --help and --version.

        Without arguments, print the help and exit with 2. click's versions differ here: some use
        stdout and exit code 0.
        """
        with catching(ctx):
            if not args and not ctx.resilient_parsing:
                click.echo(ctx.get_help(), err=True)
                ctx.exit(2)
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand, and turn its expected errors into exit codes."""
        with catching(ctx):
            try:
                return super().invoke(ctx)
            except click.NoSuchOption as error:
                raise self._with_others(ctx, error) from None

    def _with_others(self, ctx: click.Context, error: click.NoSuchOption) -> click.UsageError:
        """Say which commands have the option."""
        option, inner = error.option_name, error.ctx
        others = [name for name in COMMANDS if option in _options(self.get_command(ctx, name))]
        others.sort(key=lambda name: name in _SCREENS)
        if inner is None or not others:
            return error
        name = inner.command_path
        short = f"memreplay FILE runs {name} FILE, which" if ctx.meta.get(_SHORT) else name
        more = len(others) - _SHOWN
        listed = [*others[:_SHOWN], *([f"{more} more"] if more > 0 else [])]
        words = " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))
        verb = "have" if len(listed) > 1 else "has"
        return click.UsageError(
            f"{short} has no option {option}; {words} {verb} it: memreplay {others[0]} FILE"
            f" {option} …",
            inner,
        )


_SNAPSHOT_ENDINGS = (".pickle", ".pkl", ".json", ".gz", ".zst", ".xz", ".bz2", ".zip", ".bin")


def _is_snapshot(name: str) -> bool:
    """Return whether the argument given instead of a command is a snapshot."""
    import os

    named = name == "-" or "/" in name or name.lower().endswith(_SNAPSHOT_ENDINGS)
    return named or (bool(name) and not name.startswith("-") and os.path.exists(name))


def _options(command: click.Command | None) -> set[str]:
    return set() if command is None else {one for param in command.params for one in param.opts}


def _meant(name: str) -> str:
    """Suggest a similar command."""
    from difflib import get_close_matches  # imported late: only for errors

    near = get_close_matches(name, COMMANDS, 1, 0.65)
    return f"did you mean {near[0]}?" if near else "memreplay --help lists them"


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from memreplay.io.version import __version__

    click.echo(f"memreplay {__version__}")
    ctx.exit()


@click.group(
    cls=App,
    subcommand_metavar="FILE | COMMAND [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"""\b
Examples:
  memreplay snap.pkl
  memreplay peak snap.pkl --by module
  memreplay gate snap.pkl --max-peak 38GiB

{ALL_EXIT_CODES}""",
)
@click.option(
    "--version",
    "-V",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def app() -> None:
    """Replay PyTorch memory snapshots: exact peaks, and what held the memory.

    `memreplay FILE` reports on a snapshot: a file from torch.cuda.memory._dump_snapshot(),
    compressed or not, a page saved from PyTorch's viewer, or a torch.profiler memory trace. You
    need neither torch nor a GPU, and no code in the file is run.
    """
