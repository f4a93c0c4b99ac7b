"""A process that has loaded memreplay, and forks for each run.

    python -m tests.faults.server

Each line of JSON on stdin is a run, and each line on stdout its outcome. The fault library is
loaded from the start, but only counts calls in the forked processes.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

# Packages that every run imports. If one is missing, so are the commands that need it.
LOADED = (
    "numpy",
    "pyarrow",
    "pyarrow.parquet",
    "matplotlib",
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
    "zstandard",
    "fsspec",
)

# These are used only in recorded programs and in notebooks.
ELSEWHERE = ("memreplay.programs.inside", "memreplay.notebook", "memreplay.pages")


def main() -> None:
    """Serve runs until stdin is closed."""
    for name in LOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    import memreplay

    # Import everything now; otherwise a run would see later changes to the sources.
    for one in pkgutil.walk_packages(memreplay.__path__, "memreplay."):
        if not one.name.startswith(ELSEWHERE):
            with suppress(ImportError):
                importlib.import_module(one.name)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        sys.stdout.write(f"{json.dumps(run(json.loads(line)))}\n")
        sys.stdout.flush()


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Run a command; return its exit code (negative for a signal), and whether it timed out."""
    pid = os.fork()
    if not pid:
        be(job)
    late = False
    handle = os.pidfd_open(pid)
    try:
        waited = job["kill_s"] if job["kill_s"] is not None else job["limit_s"]
        if not select.select([handle], [], [], waited)[0]:
            if job["kill_s"] is not None:
                os.kill(pid, signal.SIGKILL)
            else:
                late = True
                os.killpg(pid, signal.SIGKILL)
    finally:
        os.close(handle)
    _, status, _ = os.wait4(pid, 0)
    return {"exit": os.waitstatus_to_exitcode(status), "late": late}


def be(job: dict[str, Any]) -> NoReturn:
    """Turn this process into the run, as if it had been started by `python -m memreplay`."""
    os.setsid()
    for number, path in enumerate((job["stdin"], job["stdout"], job["stderr"])):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        file = os.open(path, flags, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)))
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "utf-8")
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
        "utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]
    os.chdir(job["cwd"])
    os.environ.update(job["env"])
    sys.argv = ["memreplay", *job["args"]]
    faulthandler.enable()
    ctypes.CDLL(None).faults_begin()
    # Child processes inherit the fault library, but no fault is injected there.
    os.environ.update({"FAULTS_STDOUT": "0", "FAULTS_EARLY": "0", "FAULTS_CRASHES": "0"})
    code: Any = 99
    try:
        from memreplay.__main__ import run as run_command

        run_command()
    except SystemExit as end:
        code = end.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 98
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 97)


if __name__ == "__main__":
    main()
