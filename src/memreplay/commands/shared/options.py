"""Each option and argument that subcommands share, once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from memreplay.commands.shared.asking import JSON_ROWS, SCREEN_ROWS
from memreplay.commands.shared.by import ByType
from memreplay.commands.shared.config import ConfigChoice
from memreplay.commands.shared.limit import LimitType
from memreplay.commands.shared.moment import MomentType
from memreplay.commands.shared.pool import PoolType, StreamType
from memreplay.commands.shared.source import Reading

if TYPE_CHECKING:
    from memreplay.snapshot.model import Moment

F = TypeVar("F", bound=Callable[..., Any])
MOST = 2**63 - 1  # more than there is of anything

# A path stays unchecked here: that a file is missing is no wrong usage, and has its own exit code.
_PATH = click.Path(allow_dash=True, readable=False, path_type=str)


def file_argument(function: F) -> F:
    """FILE: one snapshot, `-` for standard input."""
    return click.argument("file", type=_PATH)(function)


def json_option(function: F) -> F:
    """--json, for --format json."""

    @functools.wraps(function)
    def command(*args: Any, as_json: bool, fmt: str | None, **kwargs: Any) -> Any:
        if as_json:
            given = click.get_current_context().get_parameter_source("fmt")
            if given is ParameterSource.COMMANDLINE and fmt != "json":
                raise click.UsageError(f"--json and --format {fmt} contradict each other")
            fmt = "json"
        return function(*args, fmt=fmt, **kwargs)

    return click.option("--json", "as_json", is_flag=True, help="Same as --format json.")(command)  # type: ignore[return-value]


def format_option(function: F) -> F:
    """--format text|json, and --json."""
    return _format(json_option(function))


def _format(function: F) -> F:
    return click.option(
        "--format",
        "fmt",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Text for people, or JSON for programs (memreplay help json).",
    )(function)


def from_zero(_ctx: click.Context, _param: click.Parameter, value: int) -> int:
    """Refuses what is below 0; a range of click's own would stand in the help as x>=0. Of more than
    there can be, all is meant."""
    if value < 0:
        raise click.BadParameter(f"{value} is below 0")
    return min(value, MOST)


def top_option(function: F) -> F:
    """--top N, 0 for all."""
    return click.option(
        "--top",
        "-n",
        type=int,
        callback=from_zero,
        metavar="N",
        default=20,
        show_default=True,
        help="Show the N largest; 0 for all.",
    )(function)


def screen_top_option(function: F) -> F:
    """--top N, 0 for all, of who held memory; by default as many as fit a screen."""
    return click.option(
        "--top",
        "-n",
        type=int,
        callback=_screen_top,
        metavar="N",
        help=f"Show the N largest; 0 for all (default: {SCREEN_ROWS}, or {JSON_ROWS} in JSON).",
    )(function)


def _screen_top(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
    return None if value is None else from_zero(ctx, param, value)


_WAYS = (
    " by: stack (default), frame (the user's), innermost, function, file, directory, module,"
    " category, phase, annotation, compile_context, user_metadata, stream, pool or size; combine"
    " several as category,file."
)


def by_option_for(what: str) -> Callable[[F], F]:
    """The same where no memory is reserved memory: `what` is grouped."""
    return _by(f"What to group {what}{_WAYS}")


def _by(text: str) -> Callable[[F], F]:
    return click.option("--by", type=ByType(), metavar="WAY[,WAY...]", help=text)


# Spelled out, as `model` is loaded late; a test compares the two.
MEASURES = ("requested", "held", "active", "allocated", "reserved")


def measure_option(function: F) -> F:
    """--measure."""
    return click.option(
        "--measure",
        type=click.Choice(MEASURES),
        default="requested",
        show_default=True,
        help="Which bytes: requested (as asked for, until the free completes), held (until the"
        " free is requested, so it does not depend on timing), active and allocated (the"
        " same two, in whole blocks), reserved (segments).",
    )(function)


def part_options(function: F) -> F:
    """--pool and --stream."""
    pool = click.option(
        "--pool",
        type=PoolType(),
        metavar="ID",
        help="Only this memory pool: two numbers (0:1), or default.",
    )
    stream = click.option(
        "--stream", type=StreamType(), metavar="N", help="Only this stream's allocations."
    )
    return pool(stream(function))


def strict_option(function: F) -> F:
    """--strict."""
    return click.option(
        "--strict",
        is_flag=True,
        help="Check the numbers against everything in the file; exit with 1 if they cannot be"
        " trusted.",
    )(function)


def reading_options(function: F) -> F:
    """--device, --from, --to, --salvage, --pick, --limit: what to read, as `reading`."""
    return _reading(function, _READING)


def whole_reading_options(function: F) -> F:
    """--device and --limit alone, likewise: of files that are read whole."""
    return _reading(function, (device_option, limit_option))


def _reading(function: F, options: Sequence[Callable[[Any], Any]]) -> F:
    @functools.wraps(function)
    def command(
        *args: Any,
        device: int | None,
        limits: tuple[tuple[str, int], ...],
        start: Moment | None = None,
        stop: Moment | None = None,
        salvage: bool = False,
        pick: int | None = None,
        **kwargs: Any,
    ) -> Any:
        config = kwargs.get("config")  # of config_options, which stands above these
        settled = config or ConfigChoice(no_config=True)
        reading = Reading(device, start, stop, salvage, pick, limits, settled)
        return function(*args, reading=reading, **kwargs)

    for option in reversed(options):
        command = option(command)
    return command  # type: ignore[return-value]


def limit_option(function: F) -> F:
    """--limit, as `limits`."""
    return click.option(
        "--limit",
        "limits",
        type=LimitType(),
        multiple=True,
        metavar="NAME=N",
        help="Raise a limit on what a file may ask for, such as string_bytes=128M (memreplay"
        " help library lists the limits).",
    )(function)


def device_option(function: F) -> F:
    """--device N."""
    return click.option(
        "--device", "-d", type=int, metavar="N", help="Only this device (default: all)."
    )(function)


_READING = (
    device_option,
    click.option(
        "--from",
        "start",
        type=MomentType(),
        metavar="MOMENT",
        help="Start at this event: an index (1200), a time since the start (1.5s, 300ms), a UTC"
        " time (2026-01-21T10:15:00) or @SECONDS since the epoch. What is live then counts"
        " as carried over.",
    ),
    click.option(
        "--to",
        "stop",
        type=MomentType(),
        metavar="MOMENT",
        help="Stop before this event (same forms as --from).",
    ),
    click.option(
        "--salvage",
        is_flag=True,
        help="Read the intact part of a file that is cut off, and say so.",
    ),
    click.option(
        "--pick",
        type=click.IntRange(1),
        metavar="N",
        help="Read the N-th snapshot of a file that holds several (a list or a dict of snapshots,"
        " or pickles one after the other).",
    ),
    limit_option,
)


def force_option(function: F) -> F:
    """--force, of one file that is written."""
    return click.option(
        "--force", is_flag=True, help="Write to a terminal, and overwrite a file that exists."
    )(function)


def output_options(function: F) -> F:
    """-o, --output and --force, for what `output.byte_output` writes."""
    output = click.option(
        "-o",
        "--output",
        type=click.Path(dir_okay=False, allow_dash=True, readable=False, path_type=str),
        metavar="OUT",
        help="Write to this file, which is never left half-written.",
    )
    return output(force_option(function))


def all_frames_option(function: F) -> F:
    """--all-frames."""
    return click.option(
        "--all-frames",
        is_flag=True,
        help="Show whole stacks, with PyTorch's, Python's and C++ frames.",
    )(function)


def config_options(function: F) -> F:
    """--config, --no-config and --project: which configuration to read, and whose code is the
    user's, as one argument `config`."""

    @functools.wraps(function)
    def command(
        *args: Any,
        config_file: str | None,
        no_config: bool,
        project: tuple[str, ...],
        **kwargs: Any,
    ) -> Any:
        if no_config and config_file is not None:
            raise click.UsageError(
                "--config and --no-config contradict each other: give one of them"
            )
        return function(*args, config=ConfigChoice(config_file, no_config, project), **kwargs)

    file = click.option(
        "--config",
        "config_file",
        type=click.Path(dir_okay=False, readable=False, path_type=str),
        metavar="FILE",
        help="The configuration, a TOML file (default: memreplay.toml, or pyproject.toml with"
        " [tool.memreplay], in this folder or one above).",
    )
    none = click.option("--no-config", is_flag=True, help="Ignore any configuration file.")
    project = click.option(
        "--project",
        multiple=True,
        callback=_folders,
        metavar="DIR",
        help="Take only the code in this folder (src/gpt) or package (transformers) as yours;"
        " may be repeated. Default: all code that is not installed.",
    )
    return file(none(project(command)))  # type: ignore[return-value]


def _folders(
    _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    if not all(one.strip("/\\") for one in value):
        raise click.BadParameter("name a folder")
    return value
