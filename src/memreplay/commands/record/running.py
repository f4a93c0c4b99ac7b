"""Run the program that `memreplay record` records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from typing import Annotated, Any

from memreplay.analysis.selecting.sizes import parse_size
from memreplay.commands.shared.names import check_names
from memreplay.commands.shared.output import Force
from memreplay.commands.shared.recording import RecordingOptions
from memreplay.declared import Opt, Shared
from memreplay.errors import NothingToTellError, UsageError
from memreplay.io.urls import is_url
from memreplay.programs.starting import INSIDE, handled
from memreplay.recording.unrecorded import host_peak
from memreplay.recording.writing import DEFAULT, checked
from memreplay.render.units import size

_PASSED_ON: list[signal.Signals] = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGUSR1")
    if hasattr(signal, name)  # Windows only has the first of these signals
]


ROTATE = Shared("--rotate", "With --continuous: when to write files, and how many to keep")


class RecordOptions(RecordingOptions, frozen=True):
    """Options for what to record, and where to write."""

    pinned: Annotated[
        bool,
        Opt(
            "Also record each allocation of pinned host memory, in PyTorch versions that can;"
            " memreplay export --host extracts them.",
            brief="Also record pinned host memory.",
        ),
    ] = False
    every: Annotated[
        int | None,
        Opt(
            "Also write a snapshot every N optimizer steps: run.step-100.pickle.",
            "N",
            least=1,
            brief="Also write a snapshot every N optimizer steps.",
        ),
    ] = None
    continuous: Annotated[
        bool,
        Opt(
            "Record for days: write a file every ten minutes and when memory rises by 2%, each with"
            " the last events (--max-entries, by default 200,000), and keep ten:"
            " run.window-000001.pickle.",
            brief="Record for days: write files now and then, and keep the last ones.",
        ),
    ] = False
    seconds: Annotated[
        float | None,
        Opt("the seconds from one file to the next", "SECONDS", least=1, of=ROTATE),
    ] = None
    size: Annotated[
        int | None,
        Opt(
            "also write a file when it would take about this much",
            "SIZE",
            parse=parse_size,
            least=1,
            of=ROTATE,
        ),
    ] = None
    keep: Annotated[int | None, Opt("the number of files to keep", "N", least=1, of=ROTATE)] = None
    keep_size: Annotated[
        int | None,
        Opt("the bytes of files to keep", "SIZE", parse=parse_size, least=1, of=ROTATE),
    ] = None
    peak_percent: Annotated[
        float | None,
        Opt(
            "also write a file if memory exceeds its maximum so far by this percentage",
            "PERCENT",
            least=0.1,
            of=ROTATE,
        ),
    ] = None
    output: Annotated[
        str | None,
        Opt(
            "Write the snapshot to this file or URL; several ranks add .rankN before the extension."
            " The default file is overwritten by each run.",
            "OUT",
            short="-o",
            path="file",
            shown=DEFAULT,
            brief="Write the snapshot to this file.",
        ),
    ] = None
    force: Force = False


def recorded(program: tuple[str, ...], options: RecordOptions) -> int:
    """Run the program. Return its exit status.

    Raises UsageError if the program can't be run or the snapshot can't be written, and
    NothingToTellError if the program didn't use a device.
    """
    output = options.output or DEFAULT
    # A continuous recording numbers its files.
    replaces = options.force or options.output is None or options.continuous
    rotate = {
        name: getattr(options, name)
        for name in ("seconds", "size", "keep", "keep_size", "peak_percent")
        if getattr(options, name) is not None
    }
    if rotate and not options.continuous:
        raise UsageError("--rotate needs --continuous")
    if is_url(output):
        if options.continuous:
            raise UsageError("--continuous writes files only to this machine, not to a URL")
        path = checked(output)
    else:
        check_names(output, force=replaces)
        path = os.path.abspath(output)
    with tempfile.TemporaryDirectory(prefix="memreplay-") as folder:
        told = {
            "folder": folder,
            "path": path,
            "stacks": options.stacks,
            "max_entries": options.max_entries,
            "source": options.source,
            "holders": options.holders,
            "pinned": options.pinned,
            "every": options.every,
            "continuous": rotate or options.continuous,
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
        host = host_peak(children=True)
        used = "" if host is None else f"; it used at most {size(host)} of host memory"
        raise NothingToTellError(
            "nothing was recorded: the program used no CUDA or XPU device, or its Python"
            f" can't import memreplay{used}. memreplay dryrun and memreplay.estimate() show what"
            " a program needs on a GPU"
        )
    return status


def _run(program: tuple[str, ...], variables: dict[str, str]) -> int:
    """Run the command and return its exit status as a shell would. Signals are forwarded, except
    Ctrl-C, which the command gets directly.
    """
    try:
        child = subprocess.Popen(program, env=variables)
    except OSError as error:
        hint = f"; put python before it: python {program[0]}" if program[0].endswith(".py") else ""
        raise UsageError(f"{program[0]} doesn't run: {error.strerror or error}{hint}") from None

    def pass_on(number: int, _: object) -> None:
        child.send_signal(number)

    by: dict[signal.Signals, Any] = dict.fromkeys(_PASSED_ON, pass_on)
    with handled({**by, signal.SIGINT: lambda *_: None}):
        status = child.wait()
    return 128 - status if status < 0 else status
