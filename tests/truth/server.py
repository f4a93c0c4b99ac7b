"""Runs programs dry, each in a process of its own, with one import of torch for all of them.

It is started with the libraries of a dry run preloaded, the recording of one (`sitecustomize`) on
the path, and reads cases from its input, a line of JSON each; of each that ends it writes a line.
After an empty line it waits for all that run; a case that leaves others no memory runs alone.
A case's process is a fork of this one, in which CUDA was not touched yet: card and allocator
settings are read when it is. Where nothing is preloaded, cases run on a card of this machine.
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
import torch._dynamo  # what optimizers import, which takes as long as torch itself

from tests.truth import told

FREE = "MEMREPLAY_TRUTH_FREE"  # of cases.py, which needs memreplay
AT_ONCE = int(os.environ.get("MEMREPLAY_TRUTH_AT_ONCE", "2"))


def serve() -> None:
    """AT_ONCE at a time: two, as there are processors, unless another number is told."""
    # When Python looks for cycles, which free memory, depends on how much there is: for each case
    # it is as for the first.
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
    """No more than so many run."""
    while len(running) > most:
        say(*os.wait(), running)


def say(pid: int, status: int, running: dict[int, tuple[str, float]]) -> None:
    name, began = running.pop(pid)
    took = time.monotonic() - began
    print(json.dumps({"name": name, "pid": pid, "status": status, "seconds": took}), flush=True)


def run(case: dict[str, Any]) -> None:
    """A case, in its own process, which ends here."""
    status = 1
    try:
        gc.collect()
        os.environ.update(case["environment"])
        # The recording has read its own when torch was imported.
        sys.modules["memreplay_recording"].TOLD.update(case["environment"])
        if FREE in os.environ:
            torch.cuda._lazy_call(lambda: take_all_but(int(os.environ[FREE])))
        torch.cuda._lazy_call(told.begin if case["moments"] else told.begin_quietly)
        program(*case["program"], may_fail=case["may_fail"])
        told.end(os.path.join(os.environ["MEMREPLAY_DRYRUN"], f"{os.getpid()}.truth"))
        atexit._run_exitfuncs()  # which writes the snapshot
        status = 0
    except BaseException:
        print(f"{case['name']}:", file=sys.stderr)
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)  # without the end of a Python that has torch, which takes a while


def take_all_but(n_bytes: int) -> None:
    """Leave so much of the card, as if another program had the rest. PyTorch has no part in it."""
    free, _ = torch.cuda.mem_get_info()
    runtime = ctypes.CDLL(f"libcudart.so.{str(torch.version.cuda).partition('.')[0]}")
    taken = ctypes.c_void_p()
    if runtime.cudaMalloc(ctypes.byref(taken), ctypes.c_size_t(free - n_bytes)):
        raise RuntimeError(f"the card has {free} bytes free, {n_bytes} were to be left")


def program(path: str, *arguments: str, may_fail: bool) -> None:
    """Run a script; one that runs out of memory has said why it is to, or may fail."""
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
        # Then memreplay says that other programs have too much: another cause.
        told.ended_by(cause, None if why == "capacity" and FREE in os.environ else why)


def out_of_memory(error: BaseException | None) -> BaseException | None:
    """What has led to an error, where that is a want of memory: a capture that is broken off says
    something else."""
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = error.__cause__ or error.__context__
    return error


serve()
