"""Run commands in this process, keeping stdout and stderr separate."""

from __future__ import annotations

from inspect import signature
from typing import Any

from click.testing import CliRunner


def command_runner() -> CliRunner:
    """Return click's runner with separate stdout and stderr, which click before 8.2 merges by
    default.
    """
    options: dict[str, Any] = {}
    if "mix_stderr" in signature(CliRunner).parameters:
        options["mix_stderr"] = False
    return CliRunner(**options)
