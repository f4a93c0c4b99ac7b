"""Run each program, and write who holds its memory: python -m tests.truth.held OUT."""

from __future__ import annotations

import gc
import json
import sys
from functools import partial
from pathlib import Path

import torch

import memreplay
from memreplay.recording.holders import Holders
from tests.truth.held import programs

(Holders.__init__.__kwdefaults__ or {})["seconds"] = 60.0  # also on a slow machine


def main(out: str) -> None:
    found = {}
    path = Path(out).with_suffix(".pickle")
    with memreplay.record(path, holders=True, overwrite=True) as recorder:
        torch.zeros(1, device="cuda")
        for name, program in programs.PROGRAMS.items():
            gc.collect()
            gc.disable()  # cycles are there until the end of the program
            before = torch.cuda.memory_stats()["requested_bytes.all.current"]
            found[name] = program(partial(recorder.holders, seconds=60))
            found[name]["before"] = before
            gc.enable()
        kept = programs.leaking()
        recorder.dump(path.with_name("dumped.pickle"))
        del kept
    Path(out).write_text(json.dumps(found))


main(sys.argv[1])
