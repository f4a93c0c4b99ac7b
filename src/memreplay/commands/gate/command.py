"""`memreplay gate`: check whether memory is within budgets, and find the code that exceeds them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable

import click
from msgspec.structs import replace

from memreplay.commands.gate.files import GateFiles, gate_files_of
from memreplay.commands.gate.judging import Judging
from memreplay.commands.gate.limits import all_budgets
from memreplay.commands.gate.options import WORST, GateOptions, GateShown
from memreplay.commands.gate.runner import append_summary, repository_paths
from memreplay.commands.gate.running import gate_files
from memreplay.commands.gate.saving import check_saving, save_base
from memreplay.commands.shared.declaring import Files, as_command
from memreplay.commands.shared.errors import NOT_TRUSTED
from memreplay.commands.shared.executing import Workers
from memreplay.commands.shared.output import byte_output, render_document, wants_colour, write
from memreplay.commands.shared.source import Reading
from memreplay.errors import UsageError
from memreplay.gating.github import render_gate_github
from memreplay.gating.markdown import render_gate_markdown
from memreplay.gating.reporting import gate_report
from memreplay.gating.result import GatedFile, GateReport
from memreplay.gating.text import gate_document
from memreplay.texts import clean, log_line

BROKEN = NOT_TRUSTED


@as_command(
    "gate",
    examples=(
        "memreplay gate snap.pkl --max-peak 38GiB",
        "memreplay gate snap.pkl --save-base ci/base.json",
        "memreplay gate snap.pkl --base ci/base.json --max-growth 2%",
        "memreplay gate snap.pkl --base main.pkl --max-growth-bytes 256MiB --forbid oom",
        "memreplay gate run/ --base ci/bases/ --max-growth 2% --format github",
        "memreplay gate memory_snapshot/ --dump iteration_10 --max-peak 70GiB",
        "memreplay gate 's3://bucket/run/**/*.pickle' --max-peak 70GiB --max-spread 10% --top 3",
        "memreplay gate snap.pkl --config memreplay.toml --write junit=gate.xml",
    ),
    exits={0: "within the budgets", 1: "over a budget, or unable to check it"},
    words={
        "force": "Overwrite the --save-base file.",
    },
    after="With several files, the highest exit code is returned.",
)
def command(
    files: Files,
    options: GateOptions,
    workers: Workers,
    reading: Reading,
    shown: GateShown,
) -> int:
    """Check each FILE (a snapshot, a folder or a pattern) against limits from options or from the
    configuration that --config names (see memreplay help gate). The first line says whether it
    passed, or which limit was exceeded, by how much, and by which code.
    """
    reading = replace(reading, config=reading.config.only_named())
    if options.saving.save_base is not None:
        check_saving(files, options)
        return save_base(files[0], reading, options, shown.most)
    budgets = all_budgets(options.budget, reading.config, options.base)
    speak_of_categories = any(one.category is not None for one in budgets)
    found = gate_files_of(files, options.dump)
    _check_targets(shown.targets, [one.path for one in found.files], options.base)
    judging = Judging(
        run=uuid.uuid4().hex,
        budgets=budgets,
        base=options.base,
        reading=reading,
        terms=replace(options.terms, rules=reading.config.rules() if speak_of_categories else None),
    )
    gated = [*found.unlisted, *gate_files(found.files, judging, workers, apart=found.apart)]
    return _present(gated, shown, found)


def _check_targets(
    targets: tuple[tuple[str, str], ...], files: list[str], base: str | None
) -> None:
    """Raise UsageError for report targets that can't be written. Called before the work."""
    read = {os.path.realpath(one) for one in (*files, base) if one is not None and one != "-"}
    seen: set[str] = set()
    for _, path in targets:
        real = os.path.realpath(path)
        folder = os.path.dirname(real)
        if not os.path.isdir(folder):
            raise UsageError(f"cannot write {path}: there is no directory {folder}")
        if os.path.isdir(real):
            raise UsageError(f"cannot write {path}: it's a directory")
        if real in read:
            raise UsageError(f"cannot write {path}: it's one of the input files")
        if real in seen:
            raise UsageError(f"cannot write {path}: two formats use it")
        seen.add(real)


def _present(gated: list[GatedFile], shown: GateShown, found: GateFiles) -> int:
    report = gate_report(
        gated,
        repository_paths(),
        missing_ranks=found.missing_ranks,
        dumps_choice=found.choice,
    )
    top = WORST if shown.most is None else shown.most
    if not any(path == "-" for _, path in shown.targets):  # stdout would have two formats
        write(_render(report, shown.format, top, coloured=wants_colour()))
    for target, path in shown.targets:
        text = _render(report, target, top)
        try:
            with byte_output(path) as out:
                out.write(f"{text}\n".encode("utf-8", "replace"))
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"cannot write {path}: {reason}") from None
    append_summary(lambda: render_gate_markdown(report, top))
    codes = [one.exit_code or (0 if one.passed else BROKEN) for one in gated]
    return max(codes)


def _render(report: GateReport, fmt: str, most: int, *, coloured: bool = False) -> str:
    return _text(report, most, coloured=coloured) if fmt == "text" else RENDERERS[fmt](report, most)


def _json(report: GateReport, _most: int) -> str:
    # Imported late: text output doesn't need it.
    from memreplay.render.record_json import render_json

    return render_json(report)


def _junit(report: GateReport, _most: int) -> str:
    from memreplay.gating.junit import render_gate_junit  # imported late: loads an XML library

    return render_gate_junit(report)


def _sarif(report: GateReport, _most: int) -> str:
    from memreplay.gating.sarif import render_gate_sarif  # imported late: rarely used

    return render_gate_sarif(report)


RENDERERS: dict[str, Callable[[GateReport, int], str]] = {
    "json": _json,
    "markdown": render_gate_markdown,
    "github": render_gate_github,
    "junit": _junit,
    "sarif": _sarif,
}


def _text(report: GateReport, most: int, *, coloured: bool) -> str:
    first = log_line(clean(report.headline))
    if coloured:
        first = click.style(first, fg="green" if report.passed else "red", bold=True)
    return f"{first}\n\n{render_document(gate_document(report, most))}"
