"""`memreplay dryrun`: determine a program's exact memory on a machine without a GPU."""

from __future__ import annotations

from typing import Annotated

import click
from msgspec.structs import replace

from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.dryrun.comparing import compare
from memreplay.commands.dryrun.largest import find_largest
from memreplay.commands.dryrun.listing import list_document, listed_gpus
from memreplay.commands.dryrun.result import DryrunReport
from memreplay.commands.dryrun.running import DryrunOptions, exit_code, ran
from memreplay.commands.dryrun.text import dryrun_document, verdict_line
from memreplay.commands.shared.declaring import OF_PROGRAM, Arg, as_command
from memreplay.commands.shared.output import wants_colour, write
from memreplay.commands.shared.showing import Shown, text_of
from memreplay.errors import UsageError
from memreplay.render.document import Document, Heading

MaybeProgram = Annotated[tuple[str, ...], Arg("-- COMMAND...", required=False, raw=True)]
"""A program to run, unless GPUs are listed."""


@as_command(
    "dryrun",
    examples=(
        "memreplay dryrun --gpu A100-80 -- python train.py",
        "memreplay dryrun --gpu RTX4090 --set expandable_segments:True -- python train.py",
        "memreplay dryrun --compare T4,L4,A100-40 -- python train.py",
        "memreplay dryrun --gpu H100 --largest -- python train.py --batch {}",
        "memreplay dryrun --gpu H100 -- torchrun --nproc-per-node 8 train.py",
        "memreplay dryrun --rank 0,37 --world-size 512 -- python train.py",
        "memreplay dryrun --gpu L4 --max-peak 20GiB -- pytest tests/test_memory.py",
    ),
    exits={
        0: "the program fits",
        1: "it runs out of memory or exceeds a limit",
        2: "usage error, or no torch with CUDA",
        5: "the program used no GPU",
        6: "the program failed or was stopped, or a process didn't report its memory",
    },
    only={"selection": ("top",)},
    words={"total_memory": "Give the GPU this much memory, such as 20GiB."},
    screen=True,
    context=OF_PROGRAM,
)
def command(
    program: MaybeProgram, options: DryrunOptions, selection: Selection, shown: Shown
) -> int:
    """Run COMMAND with PyTorch's own CUDA allocator on a fake GPU: every allocation happens, but
    nothing is computed. Show whether the program fits the card, its peak, and what holds memory
    then. Needs PyTorch's CUDA build.
    """
    asked = replace(options, program=program, as_json=shown.format == "json")
    if asked.list_gpus:
        write(text_of(listed_gpus(), shown, list_document))
        return 0
    if not program:
        raise click.UsageError("Missing argument '-- COMMAND...'.")
    if asked.compare is not None and asked.largest:
        raise UsageError("--compare and --largest can't be combined")
    if asked.largest:
        return find_largest(asked, selection)
    if asked.compare is not None:
        return compare(asked, selection)
    report = ran(asked, selection)
    write(rendered(report, shown))
    return exit_code(report)


def rendered(report: DryrunReport, shown: Shown) -> str:
    """Return the report as text or JSON."""
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
