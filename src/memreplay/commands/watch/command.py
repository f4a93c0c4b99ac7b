"""`memreplay watch`: the peak of each snapshot of a run, as it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects_with_rules
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    config_options,
    format_option,
    measure_option,
    whole_reading_options,
)
from memreplay.commands.shared.size import SizeType
from memreplay.commands.shared.source import Reading
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection

_MOST_SECONDS = 10**9


def _seconds(least: float) -> Callable[[click.Context, click.Parameter, float | None], Any]:
    """A callback that takes so many seconds and more; no NaN."""

    def seconds(_ctx: click.Context, _param: click.Parameter, value: float | None) -> float | None:
        if value is not None and not least <= value <= _MOST_SECONDS:
            raise click.BadParameter(f"{value} is not between {least:g} and {_MOST_SECONDS:,}")
        return value

    return seconds


class Asked(Struct, frozen=True, kw_only=True):
    """What to follow and how, what is too much, and when to end."""

    folders: tuple[str, ...]
    recursive: bool = False
    new: bool = False
    max_peak: int | None = None
    max_reserved: int | None = None
    bell: bool = False
    until_over: bool = False
    count: int | None = None
    timeout: float | None = None
    once: bool = False
    every: float = 1.0
    settle: float = 2.0
    fmt: str = "text"

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_peak is not None or self.max_reserved is not None


@click.command(
    "watch",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay watch run/
  memreplay watch run/ --new --max-peak 70GiB
  memreplay watch -r dumps/ --measure held --max-reserved 76GiB --until-over
  memreplay watch run/ --json --count 10 | jq '.devices[].peak_bytes'
  memreplay watch run/ --once

{EXIT_CODES.replace("0 fine,", "0 fine, 1 a snapshot was past a limit,")}""",
)
@click.argument(
    "folders",
    metavar="DIR...",
    nargs=-1,
    required=True,
    type=click.Path(file_okay=False, readable=False, path_type=str),
)
@click.option(
    "--recursive",
    "-r",
    is_flag=True,
    help="Follow all folders below it; by default those in it (rank0/, iteration_100/), while it"
    " has no snapshot itself.",
)
@click.option("--new", is_flag=True, help="Leave out what is there already.")
@click.option(
    "--max-peak",
    type=SizeType(),
    metavar="SIZE",
    help="Mark what has a peak (of --measure) above this (38GiB).",
)
@click.option(
    "--max-reserved",
    type=SizeType(),
    metavar="SIZE",
    help="Mark what has a peak of reserved memory above this.",
)
@click.option("--bell", is_flag=True, help="Ring the terminal's bell at what is past a limit.")
@click.option("--until-over", is_flag=True, help="End at the first that is past a limit.")
@click.option(
    "--count", type=click.IntRange(min=1), metavar="N", help="End after so many snapshots."
)
@click.option(
    "--timeout",
    type=float,
    callback=_seconds(0),
    metavar="SECONDS",
    help="End after so long.",
)
@click.option("--once", is_flag=True, help="List what is there, and end.")
@click.option(
    "--every",
    type=float,
    callback=_seconds(0.01),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Look so often.",
)
@click.option(
    "--settle",
    type=float,
    callback=_seconds(0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Read a file once it has been unchanged for so long.",
)
@measure_option
@config_options
@whole_reading_options
@format_option
@selects_with_rules
@asks(Asked)
def command(reading: Reading, selection: Selection, asked: Asked) -> int:
    """The peak of each snapshot of a run, as it is written.

    Follows each folder DIR in which a run writes snapshots, or one file a rank: lists what is
    there, then waits, and writes a line for each snapshot that is new or rewritten, once it is
    whole. Ctrl-C ends it, with a line that sums it up.
    """
    for option, given in (("--until-over", asked.until_over), ("--bell", asked.bell)):
        if given and not asked.limited:
            raise UsageError(f"{option} needs a limit: give --max-peak or --max-reserved")
    if asked.once and asked.new:
        raise UsageError("--once lists what is there, and --new leaves it out: give one of them")
    for folder in asked.folders:
        if "://" in folder:
            raise UsageError(f"{folder}: only folders of this machine can be watched")
    from memreplay.commands.watch.running import Watch

    return Watch(asked, reading, selection).run()
