"""The class of all commands: help in groups of options, and an exit code that is returned."""

from __future__ import annotations

from typing import Any

import click

OWN = "Options"
# The options that many commands have, by the names of their arguments. All others are the command's
# own, and come first.
GROUPS = {
    OWN: (),
    "Selection": (
        "measure",
        "measures",
        "by",
        "pool",
        "stream",
        "filter_include",
        "filter_exclude",
        "filter_min_bytes",
        "filter_only_live_at_end",
        "filter_only_carried",
        "filter_no_carried",
    ),
    "Output": (
        "top",
        "all_frames",
        "tree",
        "depth",
        "share",
        "inverted",
        "fmt",
        "as_json",
        "output",
        "force",
        "strict",
    ),
    "Reading": (
        "device",
        "start",
        "stop",
        "salvage",
        "limits",
        "config_file",
        "no_config",
        "project",
    ),
    "Workers": ("worker_number", "worker_memory", "scheduler"),
}


class Command(click.Command):
    """A command whose function returns its exit code, None for 0; it knows the old names of
    options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with the new names for old ones."""
        return super().parse_args(ctx, self._renamed(args, quiet=ctx.resilient_parsing))

    def _renamed(self, args: list[str], *, quiet: bool) -> list[str]:
        known = {name: param for param in self.params for name in param.opts}
        found = list(args)
        for at, arg in enumerate(args):
            if arg == "--":
                break
            name, equals, value = arg.partition("=")
            param = known.get(name)
            if not name.startswith("--") or (param and not getattr(param, "hidden", False)):
                continue
            from memreplay.deprecation import OPTIONS, option_note  # late: for what is not known

            old = OPTIONS.get(name)
            if old is None or (param is None and old.now not in known):
                continue
            if not quiet:
                click.echo(f"memreplay: {option_note(name)}", err=True)
            if param is None:
                found[at] = f"{old.now}{equals}{value}"
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run the function, and end with what it returns."""
        ctx.exit(super().invoke(ctx) or 0)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, in the groups that there are."""
        lists: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            # Arguments stand in the usage line.
            if record is not None and isinstance(param, click.Option):
                title = next((one for one, names in GROUPS.items() if param.name in names), OWN)
                lists[title].append(record)
        for title, records in lists.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
