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


# What options were called before, for one version more.
RENAMED = {"--only-baseline": "--only-carried-over", "--no-baseline": "--no-carried-over"}


class Command(click.Command):
    """A command whose function returns its exit code, None for 0; it knows the old names of
    options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with the new names for old ones."""
        known = {name for param in self.params for name in param.opts}
        for old in RENAMED.keys() & set(args):
            if RENAMED[old] in known:
                click.echo(f"memreplay: {old} is now {RENAMED[old]}", err=True)
        args = [RENAMED[arg] if RENAMED.get(arg) in known else arg for arg in args]
        return super().parse_args(ctx, args)

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
