"""The group of subcommands, which imports one only when it is invoked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from memreplay.commands.shared.errors import catching
from memreplay.commands.shared.exits import ALL_EXIT_CODES
from memreplay.commands.shared.listed import COMMANDS, SECTIONS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# What a file without a command is read for.
FIRST = "report"


class App(click.Group):
    """A click group over `COMMANDS`, with the one place where errors become exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order of the table: the order in which one needs them."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """The command, imported now; None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"memreplay.commands.{cmd_name}.command").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a snapshot in the place of a command is reported on. Of what is neither
        it says what may have been meant."""
        name = args[0] if args else ""
        if name not in COMMANDS and _is_snapshot(name):
            return super().resolve_command(ctx, [FIRST, *args])
        wrong = name and name not in COMMANDS and not name.startswith("-")
        if wrong and not ctx.resilient_parsing:  # completion says nothing of it
            ctx.fail(f"No such command {name!r}; {_meant(name)}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the commands below their headings, without importing any of them."""
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", words) for name, words in names.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that go on so; where none does, files."""
        found = super().shell_complete(ctx, incomplete)
        if found or incomplete.startswith("-"):
            return found
        from click.shell_completion import CompletionItem  # late: for a shell alone

        return [CompletionItem(incomplete, type="file")]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; --help and --version write in here.

        Without arguments it shows the help and ends as wrong usage does. Versions of click differ
        in how they do that: some write it to stdout with exit code 0.
        """
        with catching(ctx):
            if not args and not ctx.resilient_parsing:
                click.echo(ctx.get_help(), err=True)
                ctx.exit(2)
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; whatever it raises on purpose becomes an exit code."""
        with catching(ctx):
            return super().invoke(ctx)


_SNAPSHOT_ENDINGS = (".pickle", ".pkl", ".json", ".gz", ".zst", ".xz", ".bz2", ".zip", ".bin")


def _is_snapshot(name: str) -> bool:
    """Whether what stands in the place of a command is meant as a snapshot."""
    import os

    named = name == "-" or "/" in name or name.lower().endswith(_SNAPSHOT_ENDINGS)
    return named or (bool(name) and not name.startswith("-") and os.path.exists(name))


def _meant(name: str) -> str:
    """Another command that may have been meant."""
    from difflib import get_close_matches  # late: for a mistake alone

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
    """Replay PyTorch memory snapshots: exact peaks, and who held them.

    `memreplay FILE` reports on a snapshot: what torch.cuda.memory._dump_snapshot() writes,
    compressed or not, a page of PyTorch's viewer, or a torch.profiler trace of memory. No torch and
    no GPU are needed, and nothing in the file is run.
    """
