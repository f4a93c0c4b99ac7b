"""`memreplay dryrun`: the exact memory of a program, on a machine without a GPU."""

from __future__ import annotations

import click
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.dryrun.comparing import compare
from memreplay.commands.dryrun.result import DryrunReport
from memreplay.commands.dryrun.running import DryrunOptions, exit_code, ran
from memreplay.commands.dryrun.text import dryrun_document, verdict_line
from memreplay.commands.shared.declaring import OF_PROGRAM, Program, as_command
from memreplay.commands.shared.output import wants_colour, write
from memreplay.commands.shared.showing import Shown, text_of
from memreplay.render.document import Document, Heading


@as_command(
    "dryrun",
    examples=(
        "memreplay dryrun --gpu A100-80 -- python train.py",
        "memreplay dryrun --gpu RTX4090 --set expandable_segments:True -- python train.py",
        "memreplay dryrun --compare T4,L4,A100-40 -- python train.py",
        "memreplay dryrun --gpu H100 -- torchrun --nproc-per-node 8 train.py",
        "memreplay dryrun --gpu L4 --max-peak 20GiB -- pytest tests/test_memory.py",
    ),
    exits={
        0: "it fits",
        1: "it runs out of memory or is over a limit",
        2: "wrong usage or no torch with CUDA",
        5: "the program used no GPU",
        6: "the program failed by itself or was stopped, or a process did not say what it took",
    },
    only={"selection": ("top",)},
    words={"total_memory": "Give the card this much memory, as 20GiB."},
    screen=True,
    context=OF_PROGRAM,
)
def command(program: Program, options: DryrunOptions, selection: Selection, shown: Shown) -> int:
    """Runs COMMAND with PyTorch's own CUDA allocator on a card that is not there: every allocation
    is made, nothing is computed. Says whether it fits the card, what the peak was and who held it.
    The program isn't changed; it needs PyTorch's CUDA build for Linux (pip install --no-deps
    torch).
    """
    asked = replace(options, program=program, as_json=shown.format == "json")
    if asked.compare is not None:
        return compare(asked, selection)
    report = ran(asked, selection)
    write(rendered(report, shown))
    return exit_code(report)


def rendered(report: DryrunReport, shown: Shown) -> str:
    """The report as text or JSON."""
    first = verdict_line(report)

    def last(_report: DryrunReport) -> Document:
        return (Heading((first,)),)

    found = text_of(report, shown, dryrun_document, last=last)
    if shown.format == "json":
        return found
    line = first
    if wants_colour():
        colour = {"fits": "green", "not_known": "yellow"}.get(report.verdict, "red")
        line = click.style(line, fg=colour, bold=True)
    return f"{line}\n\n{found}"
