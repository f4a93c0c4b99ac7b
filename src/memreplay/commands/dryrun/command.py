"""`memreplay dryrun`: the exact memory of a program, on a machine without a GPU."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import force_option, format_option, screen_top_option
from memreplay.commands.shared.output import render_document, wants_colour, write
from memreplay.commands.shared.size import SizeType
from memreplay.errors import NothingToTellError, UsageError

if TYPE_CHECKING:
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.dryrun.result import DryrunReport
    from memreplay.dryrun.launch import Ended, Setup

DEFAULT = "dryrun.pickle"
DOES_NOT_FIT = 1
PROGRAM_FAILED = 6
# Which processes a launcher is told to start, one a card.
_PER_NODE = ("--nproc-per-node", "--nproc_per_node", "--num_processes", "--num-processes")
_MOST_CARDS = 64
EXIT_CODES = (
    "Exit codes: 0 it fits, 1 it runs out of memory or is over a limit, 2 wrong usage or no torch"
    " with CUDA, 5 the program used no GPU, 6 the program failed by itself or was stopped."
)


class Asked(Struct, frozen=True):
    """The machine to pretend, what to record, where to write."""

    program: tuple[str, ...]
    gpu: str
    memory: int | None
    gpus: int | None
    settings: str | None
    stacks: str
    max_entries: int | None
    timeout: float | None
    max_peak: int | None
    max_reserved: int | None
    compare: str | None
    output: str | None
    force: bool
    fmt: str


@click.command(
    "dryrun",
    cls=Command,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
    epilog=f"""\b
Examples:
  memreplay dryrun --gpu A100-80 -- python train.py
  memreplay dryrun --gpu RTX4090 --settings expandable_segments:True -- python train.py
  memreplay dryrun --gpu H100 -- torchrun --nproc-per-node 8 train.py
  memreplay dryrun --gpu L4 --max-peak 20GiB -- pytest tests/test_memory.py
  memreplay dryrun --compare T4,L4,A100-40 -- python train.py

{EXIT_CODES}""",
)
@click.argument("program", nargs=-1, required=True, metavar="-- COMMAND...", type=click.UNPROCESSED)
@click.option(
    "--gpu",
    default="A100-80",
    show_default=True,
    metavar="NAME",
    help="The card to pretend: T4, L4, A100-40, H100 … (memreplay help dryrun lists them).",
)
@click.option(
    "--memory", type=SizeType(least=1 << 28), metavar="SIZE", help="Give the card this much memory."
)
@click.option(
    "--gpus",
    type=click.IntRange(1, _MOST_CARDS),
    metavar="N",
    help="Pretend N cards (default: as many as the command starts processes, else 1).",
)
@click.option(
    "--settings",
    metavar="SETTINGS",
    help="The allocator's settings, as PYTORCH_ALLOC_CONF has them (expandable_segments:True).",
)
@click.option(
    "--compare",
    metavar="A,B",
    help="Run once for each of these cards or settings (join settings by +), and end with a table.",
)
@click.option(
    "--max-peak",
    type=SizeType(),
    metavar="SIZE",
    help="Fail if the peak of held memory is above this (38GiB).",
)
@click.option(
    "--max-reserved",
    type=SizeType(),
    metavar="SIZE",
    help="Fail if the peak of reserved memory is above this.",
)
@click.option(
    "--stacks",
    type=click.Choice(["python", "all"]),
    default="python",
    show_default=True,
    help="Which frames to record; with those of C++ it takes longer.",
)
@click.option(
    "--max-entries",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep the last N events alone (default: all).",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop the program after so long, and tell of what it did until then.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=str),
    metavar="OUT",
    help=f"Write the snapshot to this file [{DEFAULT}]; with .rankN before the ending for several"
    " processes.",
)
@force_option
@screen_top_option
@format_option
@selects
@asks(Asked)
def command(selection: Selection, asked: Asked) -> int:
    """The exact memory of a program, on a machine without a GPU.

    Runs COMMAND with PyTorch's own CUDA allocator on a card that is not there: every allocation is
    made, nothing is computed. Then says whether the program fits the card, with how much to spare,
    what the peak was and who held it, as memreplay peak does. The program is not changed; it needs
    PyTorch's CUDA build for Linux (pip install --no-deps torch), and none of NVIDIA's libraries.
    """
    if asked.compare is not None:
        from memreplay.commands.dryrun.comparing import compare

        return compare(asked, selection)
    report = ran(asked, selection)
    write(rendered(report, asked.fmt))
    return exit_code(report)


def setup_of(asked: Asked) -> Setup:
    """The machine that is asked for. Raises UsageError for a card that there is not."""
    from memreplay.dryrun.cards import find
    from memreplay.dryrun.launch import Setup

    card = find(asked.gpu)
    return Setup(
        card=card,
        total_bytes=card.bytes if asked.memory is None else asked.memory,
        count=asked.gpus or _started(asked.program),
        settings=asked.settings,
        stacks=asked.stacks,
        max_entries=asked.max_entries,
        timeout=asked.timeout,
        # What the program prints is no part of what a program reads of us.
        stdout=sys.stderr.fileno() if asked.fmt == "json" else None,
    )


def _started(program: tuple[str, ...]) -> int:
    """How many processes a launcher is told to start; 1 where it does not say a number."""
    for i, word in enumerate(program):
        name, equals, value = word.partition("=")
        if name in _PER_NODE:
            value = value if equals else "".join(program[i + 1 : i + 2])
            if value.isdecimal() and 0 < int(value) <= _MOST_CARDS:
                return int(value)
    return 1


def ran(asked: Asked, selection: Selection) -> DryrunReport:
    """Runs the program once, and keeps its snapshots. Raises NothingToTellError where it used no
    GPU, UsageError for what cannot be run."""
    from msgspec.structs import replace

    from memreplay.commands.dryrun.find import dryrun_report
    from memreplay.commands.dryrun.keeping import check_names, kept, names
    from memreplay.dryrun.launch import run

    setup = setup_of(asked)
    output = asked.output or DEFAULT
    check_names(output, force=asked.force or asked.output is None)
    replaced = os.path.exists(output)
    with _folder_beside(output) as folder:
        ended = run(asked.program, setup, folder)
        if not any(one.facts for one in ended.processes):
            _nothing(ended)
        files = kept(ended, names(ended, output))
    report = dryrun_report(
        asked.program,
        setup,
        ended,
        files,
        budget=_budget(asked),
        selection=replace(selection, fold=asked.fmt == "text"),
    )
    return replace(report, replaced=replaced)


@contextmanager
def _folder_beside(output: str) -> Iterator[Path]:
    """Where processes write: on the disk that the snapshot is for."""
    parent = os.path.dirname(os.path.realpath(output))
    with tempfile.TemporaryDirectory(prefix=".memreplay-", dir=parent) as folder:
        yield Path(folder)


def _nothing(ended: Ended) -> None:
    """Raises: no process left a snapshot."""
    if ended.processes:
        last = ended.processes[0].last_call
        if ended.status < 0:
            import signal

            raise _ProgramFailedError(
                f"the program was killed by {signal.Signals(-ended.status).name}; its last call of"
                f" CUDA was {last}"
            )
        raise UsageError(
            "the program used the GPU and was not recorded: python -I, -E and -S leave out what"
            " records it"
            if not ended.status
            else f"the program ended with exit code {ended.status} and left no snapshot; its last"
            f" call of CUDA was {last}"
        )
    if ended.timed_out:
        raise _ProgramFailedError("time was up (--timeout) before the program used a GPU")
    if ended.status:
        raise _ProgramFailedError(
            f"the program ended with exit code {ended.status} before it used a GPU"
        )
    raise NothingToTellError("the program used no GPU")


class _ProgramFailedError(UsageError):
    """The program failed by itself, and there is nothing else to tell."""

    exit_code = PROGRAM_FAILED


def _budget(asked: Asked) -> Budget | None:
    if asked.max_peak is None and asked.max_reserved is None:
        return None
    from memreplay.analysis.comparing.budgets import Budget

    return Budget(
        max_peak=asked.max_peak, max_reserved=asked.max_reserved, where="the command line"
    )


def rendered(report: DryrunReport, fmt: str) -> str:
    """The report as text or JSON."""
    if fmt == "json":
        from memreplay.render.record_json import render_json

        return render_json(report)
    from memreplay.commands.dryrun.text import dryrun_document, verdict_line
    from memreplay.render.document import Heading

    first = verdict_line(report)
    if wants_colour():
        colour = {"fits": "green", "not_known": "yellow"}.get(report.verdict, "red")
        first = click.style(first, fg=colour, bold=True)
    return f"{first}\n\n{render_document(dryrun_document(report), last=(Heading((verdict_line(report),)),))}"


def exit_code(report: DryrunReport) -> int:
    """The exit code that says what a report says."""
    if report.verdict == "fits":
        return 0
    return PROGRAM_FAILED if report.verdict == "not_known" else DOES_NOT_FIT
