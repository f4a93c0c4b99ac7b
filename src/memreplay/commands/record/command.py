"""`memreplay record`: a program recorded from outside, unchanged."""

from __future__ import annotations

import click

from memreplay.commands.record.running import DEFAULT, Asked, recorded
from memreplay.commands.shared.asking import asks
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import force_option, history_options

EXIT_CODES = (
    "Exit codes: that of the program; 2 wrong usage, 5 the program ended well and used no GPU."
)


@click.command(
    "record",
    cls=Command,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog=f"""\b
Examples:
  memreplay record -- python train.py
  memreplay record -o run.pickle --every 100 -- python train.py --epochs 1
  memreplay record --max-entries 1000000 -- torchrun --nproc-per-node 8 train.py

{EXIT_CODES}""",
)
@click.argument("program", nargs=-1, required=True, metavar="-- COMMAND...", type=click.UNPROCESSED)
@history_options
@click.option(
    "--every",
    type=click.IntRange(min=1),
    metavar="N",
    help="Write a snapshot after each N optimizer steps, too: run.step-100.pickle.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, readable=False, path_type=str),
    metavar="OUT",
    default=DEFAULT,
    show_default=True,
    help="Write the snapshot to this file; with .rankN before the ending for several ranks.",
)
@force_option
@asks(Asked)
def command(asked: Asked) -> int:
    """Record a program that runs on a GPU, without changing it.

    Runs COMMAND and writes a snapshot of each of its processes that uses a CUDA or XPU device: when
    the process ends, when it runs out of memory (as it was at that moment), and when it gets
    SIGUSR1. Beside what PyTorch records, it has the category, module and phase of each allocation,
    and the steps of the optimizer. memreplay must be installed for the Python that runs COMMAND. In
    the program itself, memreplay.record() does the same for a part of it.
    """
    return recorded(asked)
