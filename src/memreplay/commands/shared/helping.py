"""The class of commands, which groups options in the help and takes exit codes from return
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from memreplay.commands.shared.exits import EVERY, exit_text

if TYPE_CHECKING:
    from memreplay.declared import Field

OWN = "Options"
"""Heading of a command's own options, which come first."""
HEADINGS = {
    "dry": "Dry run",
    "selection": "Selection",
    "shown": "Output",
    "output": "Output",
    "reading": "Reading",
    "workers": "Workers",
}
"""Option headings by name of the record parameter."""
GROUPS = tuple(dict.fromkeys((OWN, *HEADINGS.values())))
"""The headings in display order."""


class Option(click.Option):
    """An option that a record declares, with its heading."""

    def __init__(self, *args: Any, declared: Field, heading: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.heading = declared.opt.group or heading
        self.rare = declared.opt.rare
        self.brief = declared.opt.brief

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help, shortened unless all options are listed."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        names, words = record
        if self.brief and not _lists_all(ctx):
            return names, self.brief
        if isinstance(self.show_default, str):  # click puts a described default in parentheses
            words = words.replace(f": ({self.show_default})", f": {self.show_default}")
        return names, words


_ALL = "memreplay.help-all"
AFTER_DASHES = "memreplay.after-dashes"
"""Key of a context for the number of arguments after `--`."""
SHORT_EXAMPLES = 3  # shown by --help; --help-all shows all


def help_all() -> click.Option:
    """Return the option --help-all, for commands whose --help doesn't list all options."""
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show all options, examples and exit codes.",
    )


def help_option() -> click.Option:
    """Return the option --help."""
    return click.Option(
        ["show_help", "-h", "--help"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_help,
        help="Show this message and exit.",
    )


def _show_help(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _show_all(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        ctx.meta[_ALL] = True
    _show_help(ctx, param, wanted)


class Command(click.Command):
    """A command whose function returns its exit code. None means 0."""

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        exits: Mapping[int, str] | None = None,
        after: str = "",
        **settings: Any,
    ) -> None:
        if examples:
            lines = "\n".join(f"  {one}" for one in examples)
            # A command that lists exit code 2 itself doesn't read snapshots.
            codes = exit_text(exits if exits and 2 in exits else {**EVERY, **(exits or {})})
            parts = (f"\b\nExamples:\n{lines}", codes, after)
            settings["epilog"] = "\n\n".join(part for part in parts if part)
        super().__init__(*args, **settings)
        self.examples = examples
        self.exits = exits or {}
        self._help = help_option()

    def get_help_option(self, _ctx: click.Context) -> click.Option:
        """Return the option --help. click's own looks for a translation, which takes 2% of a short
        command's start.
        """
        return self._help

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and remember how many follow `--`."""
        ctx.meta[AFTER_DASHES] = len(args) - args.index("--") - 1 if "--" in args else 0
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the function and exit with its result."""
        ctx.exit(super().invoke(ctx) or 0)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options: all of them in groups, or only the common ones."""
        every = _lists_all(ctx) or not self.examples
        lists: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            # The usage line already shows arguments.
            if record is None or not isinstance(param, click.Option):
                continue
            if every:
                lists[heading_of(param)].append(record)
            elif not getattr(param, "rare", False):
                lists[OWN].append(record)
        for title, records in lists.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and exit codes."""
        if _lists_all(ctx) or not self.examples:
            super().format_epilog(ctx, formatter)
            return
        with formatter.section("Examples"):
            for one in self.examples[:SHORT_EXAMPLES]:
                formatter.write(f"  {one}\n")
        if len(self.exits) > 1:
            formatter.write_paragraph()
            formatter.write_text(exit_text(self.exits))


def _lists_all(ctx: click.Context) -> bool:
    return bool(ctx.meta.get(_ALL))


def heading_of(param: click.Option) -> str:
    """Return an option's heading."""
    found: str = getattr(param, "heading", "")
    return found or OWN
