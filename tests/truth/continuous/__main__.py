"""Run each program in its own process, and write the truth about it next to its recording:
python -m tests.truth.continuous FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401 - optimizers import it, which takes as long as importing torch

from tests.truth.continuous.programs import PROGRAMS


def main(folder: Path) -> int:
    failed = 0
    for name, program in PROGRAMS.items():
        own = folder / name
        own.mkdir()
        sys.stdout.flush()
        if not (child := os.fork()):
            status = 1
            try:
                truth = program(str(own / "snap.pickle"))
                (folder / f"{name}.json").write_text(json.dumps(truth))
                status = 0
            except BaseException:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(status)
        if os.waitpid(child, 0)[1]:
            print(f"{name} failed", file=sys.stderr)
            failed += 1
    return failed


sys.exit(main(Path(sys.argv[1])))
