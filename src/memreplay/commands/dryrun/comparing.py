"""Run a program once per card or setting, and compare the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.commands.dryrun.comparing_result import ComparedRun, DryrunComparison
from memreplay.commands.dryrun.running import (
    DEFAULT,
    DOES_NOT_FIT,
    PROGRAM_FAILED,
    DryrunOptions,
    ran,
)
from memreplay.commands.shared.errors import say
from memreplay.commands.shared.names import check_names, split
from memreplay.commands.shared.output import render_document, write
from memreplay.errors import MemreplayError, UsageError

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.render.document import Document, Row

_MOST_RUNS = 64


def compare(asked: DryrunOptions, selection: Selection) -> int:
    """Run the program, print the table, and return the exit code, which is 0 if any run fits."""
    output = asked.output or DEFAULT
    each = [(name, one) for name, one in _each(asked)]
    for name, _ in each:
        check_names(file_of(output, name), force=asked.replaces)
    runs, failed = [], 0
    for at, (name, one) in enumerate(each, 1):
        say(f"run {at} of {len(each)}: {name}")
        try:
            report = ran(replace(one, output=file_of(output, name), force=True), selection)
            runs.append(ComparedRun(name, report))
            if report.outcome == "interrupted":
                break
        except MemreplayError as error:
            say(f"{name}: {error}")
            failed = failed or error.exit_code
            runs.append(ComparedRun(name, None, str(error)))
    found = DryrunComparison(runs=tuple(runs))
    if asked.as_json:
        from memreplay.render.record_json import render_json

        write(render_json(found))
    else:
        write(render_document(comparison_document(found)))
    verdicts = [run.report.verdict if run.report else "not_known" for run in runs]
    if "fits" in verdicts:
        return 0
    if not any(run.report for run in runs):
        return failed
    return PROGRAM_FAILED if set(verdicts) == {"not_known"} else DOES_NOT_FIT


def _each(asked: DryrunOptions) -> list[tuple[str, DryrunOptions]]:
    """Return each run's options. Raises UsageError for an unknown card and invalid settings."""
    from memreplay.dryrun.cards import find

    found = []
    for name in (asked.compare or "").split(","):
        word = name.strip()
        if not word:
            raise UsageError(
                "--compare needs cards or settings, separated by commas: T4,L4,A100-40"
            )
        if ":" in word:
            settings = word.replace("+", ",")
            found.append((word, replace(asked, settings=(settings,), compare=None)))
        else:
            found.append((find(word).key, replace(asked, gpu=word, compare=None)))
    names = [file_of("", name) for name, _ in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--compare names {found[names.index(name)][0]} twice")
    if len(found) > _MOST_RUNS:
        raise UsageError(f"--compare takes at most {_MOST_RUNS} runs")
    return found


def file_of(output: str, name: str) -> str:
    """Return the name of a run's snapshot: `output` with the run's name before its suffix."""
    stem, ending = split(output)
    word = "".join(one if one.isalnum() or one in "._-" else "-" for one in name)
    return f"{stem}.{word}{ending}"


TITLES = ("run", "allocated", "reserved", "to spare", "exact", "verdict")


def run_row(run: ComparedRun) -> Row:
    """Return a run's row in a table of runs."""
    from memreplay.commands.dryrun.text import verdict_text
    from memreplay.render.document import Row
    from memreplay.render.units import size
    from memreplay.texts import clean

    one = run.report
    if one is None:
        return Row((clean(run.name), "-", "-", "-", "-", "not run"), style="warning")
    devices = [device for process in one.processes for device in process.devices]
    allocated = max((device.allocated_peak_bytes for device in devices), default=0)
    return Row(
        (
            clean(run.name),
            size(allocated),
            size(one.peak_bytes),
            size(one.spare_bytes) if one.outcome == "ended" else "-",
            "yes" if one.exact else "no",
            verdict_text(one),
        ),
        style="plain" if one.verdict == "fits" else "warning",
    )


def comparison_document(found: DryrunComparison) -> Document:
    """Build a table with a row per run, in the given order."""
    from memreplay.commands.dryrun.text import warnings_of
    from memreplay.render.document import Note, Table
    from memreplay.texts import clean

    rows = tuple(map(run_row, found.runs))
    notes = []
    for run in found.runs:
        name = clean(run.name)
        if run.report is None:
            notes.append(Note(f"{name}: {clean(run.error or '')}", "warning"))
        else:
            notes += [Note(f"{name}: {words}", "warning") for words in warnings_of(run.report)]
    table = Table(TITLES, ("left", "right", "right", "right", "left", "left"), rows)
    return (table, *notes)
