"""`memreplay record`: record a program from outside, without changing it."""

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
        0: "the program succeeded",
        2: "usage error",
        5: "the program succeeded without using a GPU",
    },
    after="If the program fails, the exit code is the program's.",
    context=OF_PROGRAM,
)
def command(program: Program, options: RecordOptions) -> int:
    """Run COMMAND and write a snapshot for each of its processes that uses a CUDA or XPU device:
    when it ends, when it runs out of memory, and when it receives SIGUSR1. memreplay must be
    installed for the Python that runs COMMAND. To record from inside a program, use
    memreplay.record().
    """
    return recorded(program, options)
