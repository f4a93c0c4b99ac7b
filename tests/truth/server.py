"""Run programs dry, each in a separate process, importing torch only once for all of them.

The server starts with a dry run's libraries preloaded and its recorder (`sitecustomize`) on the
path. It reads cases from stdin, one line of JSON each, and writes a line when a case ends. After an
empty line it waits for all running cases, so a case that needs all memory can run by itself. Each
case runs in a fork made before CUDA is initialized, because initializing CUDA reads the GPU's
properties and the allocator settings. Without preloaded libraries, cases run on this machine's GPU.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import sys
import time
import traceback
import types
from typing import Any

import torch
import torch._dynamo  # optimizers import it, which takes as long as importing torch

from tests.truth import told

# The same value as in cases.py, which can't be imported because it needs memreplay.
FREE = "MEMREPLAY_TRUTH_FREE"
AT_ONCE = int(os.environ.get("MEMREPLAY_TRUTH_AT_ONCE", "2"))


def serve() -> None:
    """Run cases from stdin, AT_ONCE at a time."""
    # The number of objects decides when Python collects cycles, and so frees memory. Collect before
    # each fork, so that every case starts like the first.
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[str, float]] = {}
    for line in sys.stdin:
        case = json.loads(line) if line != "\n" else None
        alone = case is None or FREE in case["environment"]
        wait_until(0 if alone else AT_ONCE - 1, running)
        if case is None:
            continue
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            run(case)
        running[pid] = case["name"], time.monotonic()
        wait_until(0 if alone else AT_ONCE, running)
    wait_until(0, running)


def wait_until(most: int, running: dict[int, tuple[str, float]]) -> None:
    """Wait until at most this many cases are running."""
    while len(running) > most:
        say(*os.wait(), running)


def say(pid: int, status: int, running: dict[int, tuple[str, float]]) -> None:
    name, began = running.pop(pid)
    took = time.monotonic() - began
    print(json.dumps({"name": name, "pid": pid, "status": status, "seconds": took}), flush=True)


def run(case: dict[str, Any]) -> None:
    """Run a case, then exit the process."""
    status = 1
    try:
        gc.collect()
        os.environ.update(case["environment"])
        # The recording copied the environment when torch was imported, so update that copy too.
        sys.modules["memreplay_recording"].TOLD.update(case["environment"])
        if FREE in os.environ:
            torch.cuda._lazy_call(lambda: take_all_but(int(os.environ[FREE])))
        torch.cuda._lazy_call(told.begin if case["moments"] else told.begin_quietly)
        program(*case["program"], may_fail=case["may_fail"])
        told.end(os.path.join(os.environ["MEMREPLAY_DRYRUN"], f"{os.getpid()}.truth"))
        atexit._run_exitfuncs()  # writes the snapshot
        status = 0
    except BaseException:
        print(f"{case['name']}:", file=sys.stderr)
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)  # skips Python's shutdown, which is slow with torch


def take_all_but(n_bytes: int) -> None:
    """Leave only this much GPU memory free, as if another program used the rest. PyTorch isn't
    involved.
    """
    free, _ = torch.cuda.mem_get_info()
    runtime = ctypes.CDLL(f"libcudart.so.{str(torch.version.cuda).partition('.')[0]}")
    taken = ctypes.c_void_p()
    if runtime.cudaMalloc(ctypes.byref(taken), ctypes.c_size_t(free - n_bytes)):
        raise RuntimeError(f"the card has {free} bytes free, {n_bytes} were to be left")


def program(path: str, *arguments: str, may_fail: bool) -> None:
    """Run a script. If it runs out of memory, FAILS in the script must give the reason, unless the
    script may fail.
    """
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sys.argv[:] = [path, *arguments]
    try:
        exec(code, module.__dict__)
    except Exception as error:
        cause = out_of_memory(error)
        if cause is None or not (may_fail or (cause is error and "FAILS" in module.__dict__)):
            raise
        why = module.__dict__.get("FAILS")
        # If other programs use memory, memreplay names them as the cause, not the card's capacity.
        told.ended_by(cause, None if why == "capacity" and FREE in os.environ else why)


def out_of_memory(error: BaseException | None) -> BaseException | None:
    """Return the out-of-memory error that caused this error, if any. An aborted capture raises a
    different error.
    """
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = error.__cause__ or error.__context__
    return error


serve()
