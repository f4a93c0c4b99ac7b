"""`memreplay gate`: whether memory is within its budgets, and which code broke them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from memreplay.commands.gate.limits import all_budgets, budget_options
from memreplay.commands.gate.runner import append_summary, repository_paths
from memreplay.commands.shared.asking import asks
from memreplay.commands.shared.base import base_for, opened_base
from memreplay.commands.shared.errors import NOT_TRUSTED, told
from memreplay.commands.shared.folders import holds_files, snapshot_files
from memreplay.commands.shared.helping import Command
from memreplay.commands.shared.options import (
    EXIT_CODES,
    config_options,
    files_argument,
    reading_options,
)
from memreplay.commands.shared.output import byte_output, render_document, wants_colour, write
from memreplay.commands.shared.source import Reading, opened
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from memreplay.analysis.categories.rules import Rule
    from memreplay.analysis.comparing.budgets import Budget
    from memreplay.analysis.comparing.sides import ComparedSide
    from memreplay.commands.gate.result import GatedFile, GateReport
    from memreplay.commands.shared.config import ConfigChoice

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


@click.command(
    "gate",
    cls=Command,
    epilog=f"""\b
Examples:
  memreplay gate snap.pkl --max-peak 38GiB
  memreplay gate snap.pkl --base main.pkl --max-growth 2%
  memreplay gate snap.pkl --base ci/base.json --max-growth-bytes 256MiB --no-oom
  memreplay gate run/ --base ci/bases/ --max-growth 2% --format github
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
def command(files: tuple[str, ...], base: str | None, reading: Reading, asked: Asked) -> int:
    """Whether memory is within its budgets.

    Checks each FILE ('-' for standard input, or a folder of snapshots) against limits, given here
    and in the configuration ([[gate]], memreplay help gate). The first line says whether they were
    kept, or which one was broken: by how much, and in which code. If $GITHUB_STEP_SUMMARY is set, a
    table is appended there too.
    """
    budgets = all_budgets(asked.budget, asked.config, base)
    speak_of_categories = any(one.category is not None for one in budgets)
    rules = asked.config.rules() if speak_of_categories else None
    gated: list[GatedFile] = []
    with ExitStack() as until:
        bases = _Bases(base, reading, rules, asked.strict, until)
        named = _named(files, gated)
        _check_targets(asked.targets, named, base)
        for file in named:
            side, without = bases.of(file)
            work = partial(
                _judge, file, reading, budgets, side, rules, asked.allow_untrusted, asked.strict
            )
            gated.append(without or _gated(file, work))
    return _present(gated, asked.fmt, asked.targets)


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


def _named(files: tuple[str, ...], gated: list[GatedFile]) -> list[str]:
    """The files, and for a folder the snapshots in it; one that cannot be listed fails."""
    from memreplay.commands.gate.result import GatedFile

    found: list[str] = []
    for file in files:
        if file == "-" or not holds_files(file):
            found.append(file)
            continue
        names, exit_code, words = told(file, partial(snapshot_files, file))
        if names is None:
            gated.append(GatedFile(file=file, error=words, exit_code=exit_code))
        else:
            found += [os.path.join(file, name) for name in names]
    return found


class _Bases:
    """The base of each file; one that several share is read once."""

    def __init__(
        self,
        base: str | None,
        reading: Reading,
        rules: tuple[Rule, ...] | None,
        strict: bool,
        until: ExitStack,
    ) -> None:
        self.base = base
        self.reading = reading
        self.rules = rules
        self.strict = strict
        self.until = until
        self.known: dict[str, tuple[ComparedSide | None, int, str]] = {}

    def of(self, file: str) -> tuple[ComparedSide | None, GatedFile | None]:
        """The base, None without one; and, where something is wrong with it, what becomes of the
        file for that."""
        from memreplay.commands.gate.result import GatedFile

        if self.base is None:
            return None, None
        name, exit_code, words = told(file, partial(base_for, self.base, file))
        if name is None:
            return None, GatedFile(file=file, error=words, exit_code=exit_code)
        if name not in self.known:
            self.known[name] = told(name, partial(self._opened, name))
        side, exit_code, words = self.known[name]
        if side is None:
            return None, GatedFile(
                file=file, base_file=name, error=f"base {name}: {words}", exit_code=exit_code
            )
        return side, None

    def _opened(self, name: str) -> ComparedSide:
        from memreplay.analysis.comparing.sides import BaselineSide, SnapshotSide

        found = opened_base(name, self.reading, self.until)
        if isinstance(found, BaselineSide):
            return found
        return SnapshotSide(found, rules=self.rules, strict=self.strict)


def _judge(
    file: str,
    reading: Reading,
    budgets: tuple[Budget, ...],
    side: ComparedSide | None,
    rules: tuple[Rule, ...] | None,
    allow_untrusted: bool,
    strict: bool,
) -> GatedFile:
    from memreplay.commands.gate.find import gate_file

    with opened(file, reading) as snapshot:
        return gate_file(
            snapshot,
            budgets,
            base=side,
            rules=rules,
            allow_untrusted=allow_untrusted,
            strict=strict,
        )


def _gated(file: str, work: Callable[[], GatedFile]) -> GatedFile:
    """What was found; of a file that cannot be judged, why."""
    found, exit_code, words = told(file, work)
    if found is not None:
        return found
    from memreplay.commands.gate.result import GatedFile

    return GatedFile(file=file, error=words, exit_code=exit_code)


def _present(gated: list[GatedFile], fmt: str, targets: tuple[tuple[str, str], ...]) -> int:
    from memreplay.commands.gate.telling import gate_report

    report = gate_report(gated, repository_paths())
    write(_render(report, fmt, coloured=wants_colour()))
    for target, path in targets:
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

    first = report.headline
    if coloured:
        first = click.style(first, fg="green" if report.passed else "red", bold=True)
    return f"{first}\n\n{render_document(gate_document(report))}"
