"""Runs planted programs, each in every kind of recording, in forks of one process that has torch.

Only the libraries of a dry run are preloaded, none of its other parts, so that the recording
contains only what the program requests from PyTorch.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pkgutil
import sys
import time
import traceback

import torch
import torch._dynamo  # optimizers import it, which takes as long as importing torch

from tests.truth.planted import programs, truth


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--kinds", nargs="*", default=list(truth.KINDS))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2)
    asked = parser.parse_args()
    for module in pkgutil.iter_modules(programs.__path__):
        importlib.import_module(f"{programs.__name__}.{module.name}")
    chosen = [
        program
        for name, program in truth.programs.items()
        if not asked.only or any(text in name for text in asked.only)
    ]
    cases = [(program, kind) for program in chosen for kind in asked.kinds][:: asked.every]
    print(json.dumps(len(cases)), flush=True)
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[str, str, float]] = {}
    for program, kind in cases:
        pid = os.fork()
        if not pid:
            run(program, kind, asked.folder)
        running[pid] = program.name, kind, time.monotonic()
        while len(running) >= asked.at_once:
            say(running)
    while running:
        say(running)


def say(running: dict[int, tuple[str, str, float]]) -> None:
    pid, status = os.wait()
    name, kind, began = running.pop(pid)
    took = time.monotonic() - began
    ended = {"name": name, "kind": kind, "pid": pid, "status": status, "seconds": took}
    print(json.dumps(ended), flush=True)


def run(program: truth.Program, kind: str, folder: str) -> None:
    status = 1
    try:
        gc.collect()
        torch.manual_seed(0)
        truth.run(program, kind, folder)
        status = 0
    except BaseException:
        print(f"{program.name}, {kind}:", file=sys.stderr)
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)  # skips Python's shutdown, which is slow with torch


if __name__ == "__main__":
    main()
