"""`memreplay gate`: whether memory is within its budgets, and which code broke them."""

from __future__ import annotations

import os
import uuid
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from memreplay.commands.gate.limits import all_budgets, budget_options
from memreplay.commands.gate.runner import append_summary, repository_paths
from memreplay.commands.shared.asking import asks
from memreplay.commands.shared.dumps import dump_option
from memreplay.commands.shared.errors import NOT_TRUSTED
from memreplay.commands.shared.executing import Workers, workers_options
from memreplay.commands.shared.exits import EXIT_CODES
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    config_options,
    files_argument,
    from_zero,
    reading_options,
)
from memreplay.commands.shared.output import byte_output, render_document, wants_colour, write
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from memreplay.commands.gate.files import GateFiles
    from memreplay.commands.gate.result import GatedFile, GateReport
    from memreplay.commands.shared.config import ConfigChoice
    from memreplay.commands.shared.source import Reading

# What writes each format but text: a module, imported when it is asked for, and a function of it.
RENDERERS = {
    "json": ("memreplay.render.record_json", "render_json"),
    "markdown": ("memreplay.commands.gate.markdown", "render_gate_markdown"),
    "github": ("memreplay.commands.gate.github", "render_gate_github"),
    "junit": ("memreplay.commands.gate.junit", "render_gate_junit"),
    "sarif": ("memreplay.commands.gate.sarif", "render_gate_sarif"),
}
FORMATS = ("text", *RENDERERS)
BROKEN = NOT_TRUSTED


def _targets(
    _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    found = []
    for text in value:
        fmt, equals, path = text.partition("=")
        if not equals or not path or fmt not in FORMATS:
            raise click.BadParameter(
                f"{text!r} is not FORMAT=FILE; formats: {', '.join(FORMATS)} (as junit=gate.xml)"
            )
        found.append((fmt, path))
    return tuple(found)


class Asked(Struct, frozen=True):
    """The limits, what they are held against, and how to say it."""

    config: ConfigChoice
    budget: dict[str, Any]
    allow_untrusted: bool
    strict: bool
    fmt: str
    targets: tuple[tuple[str, str], ...]
    worst: int
    dump: str | None


@click.command(
    "gate",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay gate snap.pkl --max-peak 38GiB
  memreplay gate snap.pkl --base main.pkl --max-growth 2%
  memreplay gate snap.pkl --base ci/base.json --max-growth-bytes 256MiB --no-oom
  memreplay gate run/ --base ci/bases/ --max-growth 2% --format github
  memreplay gate memory_snapshot/ --dump iteration_10 --max-peak 70GiB
  memreplay gate 's3://bucket/run/**/*.pickle' --max-peak 70GiB --max-spread 10% --worst 3
  memreplay gate snap.pkl --config memreplay.toml --write junit=gate.xml --write sarif=gate.sarif

{EXIT_CODES.replace("0 fine,", "0 within the budgets, 1 over a budget or not judged,")}
With several files, the highest code counts.""",
)
@files_argument
@click.option(
    "--base",
    metavar="BASE",
    help="Measure growth against this: a snapshot, a baseline (`memreplay baseline`), or a"
    " folder with one for each FILE, matched by name.",
)
@budget_options
@click.option(
    "--allow-untrusted",
    is_flag=True,
    help="Judge snapshots even if they contradict themselves.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Check the numbers against everything in the file, and fail if the recorder's buffer"
    " overflowed.",
)
@click.option(
    "--worst",
    type=int,
    callback=from_zero,
    metavar="N",
    default=10,
    show_default=True,
    help="Show the N worst files; 0 for all. Every file is judged.",
)
@dump_option("judges all of them, and spreads within each")
@workers_options
@config_options
@reading_options
@click.option(
    "--format",
    "fmt",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Text for people, JSON for programs, Markdown for a pull request, GitHub annotations,"
    " or a JUnit or SARIF report.",
)
@click.option(
    "--write",
    "targets",
    multiple=True,
    callback=_targets,
    metavar="FORMAT=FILE",
    help="Also write another format to a file; may be repeated.",
)
@asks(Asked)
def command(
    files: tuple[str, ...], base: str | None, reading: Reading, workers: Workers, asked: Asked
) -> int:
    """Whether memory is within its budgets.

    Checks each FILE ('-' for standard input, a folder of snapshots, or a pattern) against limits,
    given here and in the configuration ([[gate]], memreplay help gate). Where each rank has several
    dumps, the newest is checked. The first line says whether they were kept, or which one was
    broken: by how much, and in which code. If $GITHUB_STEP_SUMMARY is set, a table is appended
    there too.
    """
    budgets = all_budgets(asked.budget, asked.config, base)
    speak_of_categories = any(one.category is not None for one in budgets)
    rules = asked.config.rules() if speak_of_categories else None
    from memreplay.commands.gate.files import gate_files_of

    found = gate_files_of(files, asked.dump)
    _check_targets(asked.targets, [one.path for one in found.files], base)
    from memreplay.commands.gate.judging import Judging
    from memreplay.commands.gate.running import gate_files

    judging = Judging(
        run=uuid.uuid4().hex,
        budgets=budgets,
        base=base,
        reading=reading,
        rules=rules,
        allow_untrusted=asked.allow_untrusted,
        strict=asked.strict,
    )
    gated = [*found.unlisted, *gate_files(found.files, judging, workers, apart=found.apart)]
    return _present(gated, asked, found)


def _check_targets(
    targets: tuple[tuple[str, str], ...], files: list[str], base: str | None
) -> None:
    """Raises UsageError where a report should not go: asked before the work."""
    read = {os.path.realpath(one) for one in (*files, base) if one is not None and one != "-"}
    seen: set[str] = set()
    for _, path in targets:
        real = os.path.realpath(path)
        folder = os.path.dirname(real)
        if not os.path.isdir(folder):
            raise UsageError(f"cannot write {path}: there is no directory {folder}")
        if os.path.isdir(real):
            raise UsageError(f"cannot write {path}: it is a directory")
        if real in read:
            raise UsageError(f"cannot write {path}: it is one of the files that are read")
        if real in seen:
            raise UsageError(f"cannot write {path}: two formats would go there")
        seen.add(real)


def _present(gated: list[GatedFile], asked: Asked, found: GateFiles) -> int:
    from memreplay.commands.gate.telling import gate_report

    report = gate_report(
        gated,
        repository_paths(),
        worst=asked.worst,
        missing_ranks=found.missing_ranks,
        dumps_choice=found.choice,
    )
    write(_render(report, asked.fmt, coloured=wants_colour()))
    for target, path in asked.targets:
        text = _render(report, target, coloured=False)
        try:
            with byte_output(path) as out:
                out.write(f"{text}\n".encode("utf-8", "replace"))
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"cannot write {path}: {reason}") from None
    append_summary(lambda: _render(report, "markdown", coloured=False))
    codes = [one.exit_code or (0 if one.passed else BROKEN) for one in gated]
    return max(codes)


def _render(report: GateReport, fmt: str, *, coloured: bool) -> str:
    if fmt not in RENDERERS:
        return _text(report, coloured=coloured)
    module, function = RENDERERS[fmt]
    found: str = getattr(import_module(module), function)(report)
    return found


def _text(report: GateReport, *, coloured: bool) -> str:
    from memreplay.commands.gate.text import gate_document
    from memreplay.texts import clean, log_line

    first = log_line(clean(report.headline))
    if coloured:
        first = click.style(first, fg="green" if report.passed else "red", bold=True)
    return f"{first}\n\n{render_document(gate_document(report))}"
