"""`memreplay mcp`: serve snapshots to an AI agent over the Model Context Protocol."""

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
    exits={0: "end of input", 2: "usage error"},
    only={"reading": ("limits", "config_file", "folders")},
)
def command(
    served: Annotated[tuple[str, ...], Arg("[DIR]...", required=False)], reading: Reading
) -> int:
    """Serve the protocol on standard input and output: an agent starts the server, lists the
    snapshots in the folders DIR (default: the current one), and runs report, peak, leaks, oom, diff
    and others on them. The server reads nothing else and writes nothing. Setup: memreplay help mcp.
    Needs the protocol's Python SDK (the 'mcp' extra).
    """
    check_sdk()
    if sys.stdin.isatty():
        raise UsageError(
            "an agent talks to it over standard input; set it up in the agent (memreplay help mcp)"
        )
    allowed, rules = Allowed(served or (".",)), reading.config.rules()
    from memreplay.mcp.server import serve  # imported late: loads the SDK

    serve(allowed, reading, rules)
    return 0


def check_sdk() -> None:
    """Raise MissingExtraError if the SDK is missing or too old."""
    from importlib.util import find_spec

    if find_spec("mcp") is None or find_spec("mcp_types") is None:
        raise MissingExtraError("mcp needs the Model Context Protocol's SDK 2 or later", "mcp")
