"""Runs the program that `memreplay record` records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from typing import Annotated, Any

from memreplay.commands.shared.names import check_names
from memreplay.commands.shared.output import Force
from memreplay.commands.shared.recording import RecordingOptions
from memreplay.declared import Opt
from memreplay.errors import NothingToTellError, UsageError
from memreplay.programs.starting import INSIDE, handled
from memreplay.recording.writing import DEFAULT

_PASSED_ON: list[signal.Signals] = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGUSR1")
    if hasattr(signal, name)  # Windows has but the first
]


class RecordOptions(RecordingOptions, frozen=True):
    """What to record, and where to write."""

    every: Annotated[
        int | None,
        Opt(
            "Write a snapshot after each N optimizer steps, too: run.step-100.pickle.",
            "N",
            least=1,
            brief="Write a snapshot after each N optimizer steps, too.",
        ),
    ] = None
    output: Annotated[
        str | None,
        Opt(
            "Write the snapshot to this file; with .rankN before the ending for several ranks. The"
            " default file of an earlier run is replaced.",
            "OUT",
            short="-o",
            path="file",
            shown=DEFAULT,
            brief="Write the snapshot to this file.",
        ),
    ] = None
    force: Force = False


def recorded(program: tuple[str, ...], options: RecordOptions) -> int:
    """Runs it; its exit status. Raises UsageError for what cannot be run or written, and
    NothingToTellError where it used no device."""
    output = options.output or DEFAULT
    replaces = options.force or options.output is None  # the recorder says that it does
    check_names(output, force=replaces)
    with tempfile.TemporaryDirectory(prefix="memreplay-") as folder:
        told = {
            "folder": folder,
            "path": os.path.abspath(output),
            "stacks": options.stacks,
            "max_entries": options.max_entries,
            "source": options.source,
            "every": options.every,
            "overwrite": replaces,
        }
        before = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        variables = {
            **os.environ,
            "MEMREPLAY_RECORD": json.dumps(told),
            "PYTHONPATH": os.pathsep.join([str(INSIDE), *before]),
        }
        status = _run(program, variables)
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
