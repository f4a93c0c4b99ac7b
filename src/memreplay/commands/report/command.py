"""`memreplay report`: one page about a snapshot, for someone who has two minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from memreplay.commands.shared.asking import asks, selects_with_rules
from memreplay.commands.shared.errors import attempt
from memreplay.commands.shared.exits import STRICT_EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    config_options,
    file_argument,
    output_options,
    page_format_option,
    reading_options,
    strict_option,
)
from memreplay.commands.shared.output import (
    PIPE_WIDTH,
    byte_output,
    check_output,
    render_document,
    write,
)
from memreplay.commands.shared.present import trust_code
from memreplay.commands.shared.size import SizeType
from memreplay.commands.shared.source import Reading, opened

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.report.result import Overview


class Asked(Struct, frozen=True):
    """What else is asked, and how to show it."""

    total: int | None
    fmt: str
    output: str | None
    force: bool


@click.command(
    "report",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay report snap.pkl
  memreplay report snap.pkl --total-memory 80GiB
  memreplay report snap.pkl --format markdown -o report.md
  memreplay report snap.pkl --format markdown | gh pr comment --body-file -
  memreplay report snap.pkl --format json | jq -r '.devices[].advice[].text'

{STRICT_EXIT_CODES}""",
)
@file_argument
@click.option(
    "--total-memory",
    "total",
    type=SizeType(least=1),
    metavar="SIZE",
    help="The card's memory (80GiB), of which CUDA itself takes some, to say how close the run came"
    " to it.",
)
@config_options
@reading_options
@strict_option
@page_format_option
@output_options
@selects_with_rules
@asks(Asked)
def command(file: str, reading: Reading, selection: Selection, asked: Asked) -> int:
    """One page about a snapshot, in words.

    Says whether the numbers in FILE ('-' for standard input) can be trusted, whether memory ran
    out, how high it went and who held it, what was reserved and not used, whether anything leaks,
    and what to do next. With several devices, the page is about the worst one, and each of the
    others gets one line.
    """
    if asked.output is not None:
        check_output(asked.output, force=asked.force, read=[file])

    def work() -> Overview:
        from memreplay.commands.report.find import overview

        with opened(file, reading) as snapshot:
            return overview(snapshot, selection, total_memory=asked.total, fold=asked.fmt != "json")

    report, exit_code = attempt(file, work)
    if report is not None:
        _write(report, asked.fmt, asked.output)
        exit_code = trust_code(report, selection.strict)
    return exit_code


def _write(report: Overview, fmt: str, output: str | None) -> None:
    if output in (None, "-"):
        write(_text(report, fmt, plain=False))
        return
    with byte_output(output) as out:
        out.write(f"{_text(report, fmt, plain=True)}\n".encode("utf-8", "replace"))


def _text(report: Overview, fmt: str, *, plain: bool) -> str:
    if fmt == "json":
        from memreplay.render.record_json import render_json

        return render_json(report)
    from memreplay.commands.report.text import report_document

    document = report_document(report)
    if fmt == "markdown":
        from memreplay.render.markdown import render_markdown

        return render_markdown(document)
    if plain:
        from memreplay.render.plain import render_plain

        return render_plain(document, width=PIPE_WIDTH)
    return render_document(document)
