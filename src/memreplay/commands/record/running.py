"""Runs the program that `memreplay record` records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from typing import Any

from msgspec import Struct

from memreplay.commands.dryrun.keeping import check_names
from memreplay.dryrun.launch import INSIDE, handled
from memreplay.errors import NothingToTellError, UsageError

DEFAULT = "snapshot.pickle"
_PASSED_ON: list[signal.Signals] = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGUSR1")
    if hasattr(signal, name)  # Windows has but the first
]


class Asked(Struct, frozen=True):
    """What to run, what to record, where to write."""

    program: tuple[str, ...]
    stacks: str
    max_entries: int | None
    source: bool
    every: int | None
    output: str
    force: bool


def recorded(asked: Asked) -> int:
    """Runs it; its exit status. Raises UsageError for what cannot be run or written, and
    NothingToTellError where it used no device."""
    check_names(asked.output, force=asked.force)
    with tempfile.TemporaryDirectory(prefix="memreplay-") as folder:
        told = {
            "folder": folder,
            "path": os.path.abspath(asked.output),
            "stacks": asked.stacks,
            "max_entries": asked.max_entries,
            "source": asked.source,
            "every": asked.every,
            "overwrite": asked.force,
        }
        before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        variables = {
            **os.environ,
            "MEMREPLAY_RECORD": json.dumps(told),
            "PYTHONPATH": os.pathsep.join([str(INSIDE), *before]),
        }
        status = _run(asked.program, variables)
        anything = bool(os.listdir(folder))
    if not anything and not status:
        raise NothingToTellError(
            "nothing was recorded: the program used no CUDA or XPU device, or memreplay does not"
            " load in its Python"
        )
    return status


def _run(program: tuple[str, ...], variables: dict[str, str]) -> int:
    """Its exit status, as a shell has it. Signals to us are for it; Ctrl-C it gets by itself."""
    try:
        child = subprocess.Popen(program, env=variables)
    except OSError as error:
        raise UsageError(f"{program[0]} does not run: {error.strerror or error}") from None

    def pass_on(number: int, _: object) -> None:
        child.send_signal(number)

    by: dict[signal.Signals, Any] = dict.fromkeys(_PASSED_ON, pass_on)
    with handled({**by, signal.SIGINT: lambda *_: None}):
        status = child.wait()
    return 128 - status if status < 0 else status
