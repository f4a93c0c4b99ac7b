"""`memreplay record`: a program recorded from outside, unchanged."""

from __future__ import annotations

from memreplay.commands.record.running import RecordOptions, recorded
from memreplay.commands.shared.declaring import OF_PROGRAM, Program, as_command


@as_command(
    "record",
    examples=(
        "memreplay record -- python train.py",
        "memreplay record -o run.pickle --every 100 -- python train.py --epochs 1",
        "memreplay record --max-entries 1000000 -- torchrun --nproc-per-node 8 train.py",
    ),
    exits={
        0: "the program ended well",
        2: "wrong usage",
        5: "the program ended well and used no GPU",
    },
    after="If the program fails, the exit code is the program's.",
    context=OF_PROGRAM,
)
def command(program: Program, options: RecordOptions) -> int:
    """Runs COMMAND and writes a snapshot of each of its processes that uses a CUDA or XPU device:
    at its end, when it runs out of memory, and when it gets SIGUSR1. memreplay must be installed
    for the Python that runs COMMAND. In the program itself, memreplay.record() does the same.
    """
    return recorded(program, options)
