"""The class of all commands: help in groups of options, and an exit code that is returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from memreplay.commands.shared.exits import EVERY, exit_words

if TYPE_CHECKING:
    from memreplay.declared import Field

OWN = "Options"
"""The heading of a command's own options, which come first."""
HEADINGS = {
    "selection": "Selection",
    "shown": "Output",
    "output": "Output",
    "reading": "Reading",
    "workers": "Workers",
}
"""By the names of the parameters that are records, the headings of their options."""
GROUPS = tuple(dict.fromkeys((OWN, *HEADINGS.values())))
"""The headings, in the order of the help."""


class Option(click.Option):
    """An option that a record declares, and the heading it stands below."""

    def __init__(self, *args: Any, declared: Field, heading: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.heading = declared.opt.group or heading
        self.rare = declared.opt.rare
        self.brief = declared.opt.brief

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and what it means, in few words where not all options are listed."""
        record = super().get_help_record(ctx)
        if record is None or not self.brief or _lists_all(ctx):
            return record
        return record[0], self.brief


_ALL = "memreplay.help-all"
SHORT_EXAMPLES = 3  # in --help; --help-all has all


def help_all() -> click.Option:
    """--help-all, of a command that has more options than its --help lists."""
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show all options, examples and exit codes.",
    )


def _show_all(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class Command(click.Command):
    """A command whose function returns its exit code, None for 0."""

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
            # A command that says what wrong usage is reads no snapshot.
            codes = exit_words(exits if exits and 2 in exits else {**EVERY, **(exits or {})})
            parts = (f"\b\nExamples:\n{lines}", codes, after)
            settings["epilog"] = "\n\n".join(part for part in parts if part)
        super().__init__(*args, **settings)
        self.examples = examples
        self.exits = exits or {}

    def invoke(self, ctx: click.Context) -> Any:
        """Run the function, and end with what it returns."""
        ctx.exit(super().invoke(ctx) or 0)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options: in groups where all are listed, else those that people use, as one."""
        every = _lists_all(ctx) or not self.examples
        lists: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            # Arguments stand in the usage line.
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
        """Examples, and what the exit codes mean."""
        if _lists_all(ctx) or not self.examples:
            super().format_epilog(ctx, formatter)
            return
        with formatter.section("Examples"):
            for one in self.examples[:SHORT_EXAMPLES]:
                formatter.write(f"  {one}\n")
        if len(self.exits) > 1:
            formatter.write_paragraph()
            formatter.write_text(exit_words(self.exits))


def _lists_all(ctx: click.Context) -> bool:
    return bool(ctx.meta.get(_ALL))


def heading_of(param: click.Option) -> str:
    """The heading that an option stands below."""
    found: str = getattr(param, "heading", "")
    return found or OWN
