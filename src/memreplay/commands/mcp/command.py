"""`memreplay mcp`: snapshots for an AI agent, over the Model Context Protocol."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import config_options, limit_option
from memreplay.commands.shared.source import Reading
from memreplay.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from memreplay.commands.shared.config import ConfigChoice


@click.command(
    "mcp",
    cls=Command,
    epilog="""\b
Examples:
  memreplay mcp
  memreplay mcp dumps/ /data/runs
  memreplay mcp dumps/ --project src/gpt

Exit codes: 0 when the input ends, 2 wrong usage.""",
)
@click.argument(
    "folders",
    metavar="[DIR...]",
    nargs=-1,
    type=click.Path(file_okay=False, readable=False, path_type=str),
)
@config_options
@limit_option
def command(
    folders: tuple[str, ...], config: ConfigChoice, limits: tuple[tuple[str, int], ...]
) -> int:
    """Snapshots for an AI agent, over the Model Context Protocol.

    Serves standard input and output until the input ends: an agent starts it, lists the snapshots
    below the folders DIR (by default the current one), and asks what report, peak, leaks, oom, diff
    and others find in them. It reads nothing else, and writes nothing. How to set it up in an
    agent: memreplay help mcp.

    Needs the protocol's Python SDK (the extra 'mcp').
    """
    check_sdk()
    if sys.stdin.isatty():
        raise UsageError(
            "an agent talks to it over standard input: set it up there (memreplay help mcp)"
        )
    from memreplay.commands.mcp.allowed import Allowed

    allowed = Allowed(folders or (".",))
    reading = Reading(limits=limits, config=config)
    rules = config.rules()
    from memreplay.commands.mcp.server import serve

    serve(allowed, reading, rules)
    return 0


def check_sdk() -> None:
    """Raises MissingExtraError where the SDK is not installed, or an old one is."""
    from importlib.util import find_spec

    if find_spec("mcp") is None or find_spec("mcp_types") is None:
        raise MissingExtraError("mcp needs the Model Context Protocol's SDK 2 or later", "mcp")
