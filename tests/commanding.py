"""Commands run in this process, with stdout and stderr apart."""

from __future__ import annotations

from inspect import signature
from typing import Any

from click.testing import CliRunner


def command_runner() -> CliRunner:
    """A runner of click's, which before click 8.2 made one of both unless asked for two."""
    options: dict[str, Any] = {}
    if "mix_stderr" in signature(CliRunner).parameters:
        options["mix_stderr"] = False
    return CliRunner(**options)
