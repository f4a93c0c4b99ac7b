"""`memreplay dryrun`: the exact memory of a program, on a machine without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from memreplay.commands.dryrun.running import DEFAULT, MOST_CARDS, Asked, exit_code, ran
from memreplay.commands.shared.asking import asks, selects
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    force_option,
    format_option,
    history_options,
    screen_top_option,
)
from memreplay.commands.shared.output import render_document, wants_colour, write
from memreplay.commands.shared.size import SizeType

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.dryrun.result import DryrunReport

EXIT_CODES = (
    "Exit codes: 0 it fits, 1 it runs out of memory or is over a limit, 2 wrong usage or no torch"
    " with CUDA, 5 the program used no GPU, 6 the program failed by itself or was stopped, or a"
    " process did not say what it took."
)


def _cards(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Those whose names begin so, for a shell to complete."""
    from memreplay.dryrun.cards import CARDS

    return [card.key for card in CARDS if card.key.lower().startswith(begun.lower())]


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
    shell_complete=_cards,
    help="The card to pretend: T4, L4, A100-40, H100 … (memreplay help dryrun lists them).",
)
@click.option(
    "--memory", type=SizeType(least=1 << 28), metavar="SIZE", help="Give the card this much memory."
)
@click.option(
    "--gpus",
    type=click.IntRange(1, MOST_CARDS),
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
@history_options
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True, max=10**9),
    metavar="SECONDS",
    help="Stop the program after so long, and tell of what it did until then.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, readable=False, path_type=str),
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


def rendered(report: DryrunReport, fmt: str) -> str:
    """The report as text or JSON."""
    if fmt == "json":
        from memreplay.render.record_json import render_json

        return render_json(report)
    from memreplay.commands.dryrun.text import dryrun_document, verdict_line
    from memreplay.render.document import Heading

    first = verdict_line(report)
    last = (Heading((first,)),)
    if wants_colour():
        colour = {"fits": "green", "not_known": "yellow"}.get(report.verdict, "red")
        first = click.style(first, fg=colour, bold=True)
    return f"{first}\n\n{render_document(dryrun_document(report), last=last)}"
