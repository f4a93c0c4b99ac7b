"""Run a program once per card or setting, and compare the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memreplay.analysis.comparing.operators import causes
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

UNCHANGED = "unchanged"
_MOST_RUNS = 64
_SAME = 0.01  # share of a peak by which another one may differ without being explained


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
    found = explained(runs)
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
    from memreplay.dryrun.changes import is_change

    found = []
    for name in (asked.compare or "").split(","):
        word = name.strip()
        if not word:
            raise UsageError(
                "--compare needs cards or settings, separated by commas: T4,L4,A100-40"
            )
        if word == UNCHANGED:
            found.append((word, replace(asked, compare=None)))
        elif is_change(word):
            changes = tuple(word.split("+"))
            found.append((word, replace(asked, change=(*asked.change, *changes), compare=None)))
        elif ":" in word:
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


def explained(runs: Sequence[ComparedRun]) -> DryrunComparison:
    """Compare the runs' peaks, and find out which operators make them differ."""
    peaks = {run.name: _peak(run) for run in runs}
    # A program that ran out of memory would have needed more.
    known = {name: peak for name, peak in peaks.items() if peak is not None and peak.is_whole}
    lowest = min(known, key=lambda name: known[name].requested_peak_bytes, default=None)
    if lowest is None:
        return DryrunComparison(runs=tuple(runs), lowest=None)
    return DryrunComparison(
        runs=tuple(_explained(run, peaks[run.name], known[lowest]) for run in runs),
        lowest=lowest,
    )


class _Peak(NamedTuple):
    """A run's process and card with the highest peak."""

    file: str
    device: int
    requested_peak_bytes: int
    is_whole: bool
    """Whether the program ended normally, so that it didn't need more."""


def _peak(run: ComparedRun) -> _Peak | None:
    for process in run.report.processes if run.report else ():
        if run.report and process.file is not None and process.file == run.report.shown:
            highest = max(process.devices, key=lambda one: one.requested_peak_bytes, default=None)
            if highest is not None:
                whole = run.report.outcome == "ended"
                return _Peak(process.file, highest.device, highest.requested_peak_bytes, whole)
    return None


def _explained(run: ComparedRun, peak: _Peak | None, lowest: _Peak) -> ComparedRun:
    from memreplay.snapshot.snapshot import open as open_snapshot

    more = peak.requested_peak_bytes - lowest.requested_peak_bytes if peak else 0
    if peak is None or more <= _SAME * lowest.requested_peak_bytes:
        return replace(run, change_bytes=more)
    if peak.device != lowest.device:
        return replace(run, change_bytes=more)
    with open_snapshot(lowest.file) as base, open_snapshot(peak.file) as new:
        return replace(run, change_bytes=more, causes=causes(base, new, peak.device))


def _words(run: ComparedRun, found: DryrunComparison) -> str:
    """Return why a run's peak is higher than the lowest one."""
    from memreplay.commands.dryrun.text import short_path
    from memreplay.render.units import size
    from memreplay.texts import clean

    parts = []
    for one in run.causes:
        words = f"{size(one.bytes)} in {one.operator}"
        if one.file:
            words += f" ({short_path(one.file)}:{one.line})"
        if one.base_operator:
            words += f", where {found.lowest} calls {one.base_operator}"
        parts.append(words)
    least = "" if run.report and run.report.outcome == "ended" else "at least "
    first = f"{run.name}: its peak is {least}{size(run.change_bytes)} higher than {found.lowest}'s"
    return clean(f"{first}: {'; '.join(parts)}")


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
    notes += [Note(_words(run, found)) for run in found.runs if run.causes]
    return (table, *notes)
