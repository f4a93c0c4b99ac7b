"""`memreplay mcp`: snapshots for an AI agent, over the Model Context Protocol."""

from __future__ import annotations

import sys
from typing import Annotated

from memreplay.commands.shared.declaring import Arg, as_command
from memreplay.commands.shared.source import Reading
from memreplay.errors import MissingExtraError, UsageError
from memreplay.mcp.allowed import Allowed


@as_command(
    "mcp",
    examples=(
        "memreplay mcp",
        "memreplay mcp dumps/ /data/runs",
        "memreplay mcp dumps/ --project src/gpt",
    ),
    exits={0: "when the input ends", 2: "wrong usage"},
    only={"reading": ("limits", "config_file", "no_config", "folders")},
)
def command(
    served: Annotated[tuple[str, ...], Arg("[DIR]...", required=False)], reading: Reading
) -> int:
    """Serves standard input and output: an agent starts it, lists the snapshots below the folders
    DIR (by default the current one), and asks what report, peak, leaks, oom, diff and others find
    in them. It reads nothing else, and writes nothing. How to set it up: memreplay help mcp. Needs
    the protocol's Python SDK (the extra 'mcp').
    """
    check_sdk()
    if sys.stdin.isatty():
        raise UsageError(
            "an agent talks to it over standard input: set it up there (memreplay help mcp)"
        )
    allowed, rules = Allowed(served or (".",)), reading.config.rules()
    from memreplay.mcp.server import serve  # late: it loads the SDK

    serve(allowed, reading, rules)
    return 0


def check_sdk() -> None:
    """Raises MissingExtraError where the SDK is not installed, or an old one is."""
    from importlib.util import find_spec

    if find_spec("mcp") is None or find_spec("mcp_types") is None:
        raise MissingExtraError("mcp needs the Model Context Protocol's SDK 2 or later", "mcp")
