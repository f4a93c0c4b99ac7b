"""Find the largest number in a command, such as a batch size, with which the program fits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memreplay.commands.dryrun.comparing import TITLES, file_of, run_row
from memreplay.commands.dryrun.comparing_result import ComparedRun
from memreplay.commands.dryrun.largest_result import DryrunLargest, TriedValue
from memreplay.commands.dryrun.numbers import Range, search
from memreplay.commands.dryrun.running import DEFAULT, DOES_NOT_FIT, PROGRAM_FAILED, ran
from memreplay.commands.dryrun.text import verdict_line, verdict_text, warnings_of
from memreplay.commands.shared.errors import say
from memreplay.commands.shared.output import render_document, write
from memreplay.dryrun.cards import find
from memreplay.errors import MemreplayError, UsageError
from memreplay.render.document import Document, Heading, Note, Table
from memreplay.render.units import counted, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.dryrun.result import DryrunReport
    from memreplay.commands.dryrun.running import DryrunOptions

HERE = "{}"
"""The text that the number replaces."""


def find_largest(asked: DryrunOptions, selection: Selection) -> int:
    """Run the program with different numbers, print the table, and return the exit code."""
    numbers = asked.numbers or Range()
    argument = _argument(asked.program)
    output = asked.output or DEFAULT
    tried: list[TriedValue] = []

    def fits(value: int) -> bool | None:
        name = argument.replace(HERE, str(value))
        one = replace(
            asked,
            program=tuple(word.replace(HERE, str(value)) for word in asked.program),
            output=file_of(output, str(value)),
            force=asked.replaces,
            largest=False,
            numbers=None,
        )
        say(f"run {len(tried) + 1}: {name}")
        try:
            report = ran(one, selection)
        except MemreplayError as error:
            if not tried:
                raise
            tried.append(TriedValue(value, ComparedRun(name, None, str(error))))
            return None
        tried.append(TriedValue(value, ComparedRun(name, report)))
        say(f"run {len(tried)}: {verdict_text(report)}")
        return None if report.verdict == "not_known" else report.verdict == "fits"

    search(numbers, fits)
    found = _found(asked, numbers, argument, tried)
    _drop_snapshots(found)
    if asked.as_json:
        from memreplay.render.record_json import render_json

        write(render_json(found))
    else:
        write(render_document(largest_document(found)))
    return _exit_code(found)


def _argument(program: tuple[str, ...]) -> str:
    """Return the word with the number, after its option if that's a separate word."""
    for i, word in enumerate(program):
        if HERE in word:
            before = program[i - 1] if i and word == HERE else ""
            return f"{before} {word}" if before.startswith("-") else word
    raise UsageError(
        "--largest needs {} in the command, in the place of the number: python train.py --batch {}"
    )


def _found(
    asked: DryrunOptions, numbers: Range, argument: str, tried: list[TriedValue]
) -> DryrunLargest:
    good = [one.value for one in tried if _verdict(one) == "fits"]
    bad = [one.value for one in tried if _verdict(one) in ("does_not_fit", "over_budget")]
    largest = max(good, default=None)
    is_next = largest is not None and largest + numbers.step in bad
    return DryrunLargest(
        argument=argument,
        gpu=find(asked.gpu).key,
        min_value=numbers.low,
        max_value=numbers.high,
        value_step=numbers.step,
        largest_value=largest,
        next_fits=False if is_next else None,
        tried=tuple(tried),
    )


def _verdict(one: TriedValue) -> str:
    return one.run.report.verdict if one.run.report else "not_known"


def _drop_snapshots(found: DryrunLargest) -> None:
    """Remove snapshots other than those of the largest number that fits and the next one."""
    kept = {
        found.largest_value,
        (found.largest_value or 0) + found.value_step,
        found.tried[-1].value,
    }
    for one in found.tried:
        if one.value not in kept and one.run.report is not None:
            for process in one.run.report.processes:
                if process.file is not None and os.path.exists(process.file):
                    os.remove(process.file)


def _exit_code(found: DryrunLargest) -> int:
    last = found.tried[-1].run.report
    if last is not None and last.stopped_by:
        return 128 + last.stopped_by
    if "not_known" in map(_verdict, found.tried):
        return PROGRAM_FAILED
    return DOES_NOT_FIT if found.largest_value is None else 0


def answer_line(found: DryrunLargest) -> str:
    """Return the line with the answer."""
    last = found.tried[-1].run
    stopped = _verdict(found.tried[-1]) == "not_known"
    words = ""
    best = _best(found)
    if best is not None:
        known = verdict_text(best).removeprefix("fits")
        words = f"{found.argument.replace(HERE, str(found.largest_value))} fits {found.gpu}{known}"
        words += f" ({size(best.spare_bytes)} to spare)"
        if found.next_fits is False:
            return clean(f"{words}; {(found.largest_value or 0) + found.value_step} doesn't")
        if not stopped:
            return clean(f"{words}; larger numbers weren't tried (--range)")
        words += "; larger numbers aren't known: "
    if stopped:
        return clean(f"{words}with {last.name}, {_reason(last)}")
    return clean(f"{last.name} doesn't fit {found.gpu}")


def _reason(run: ComparedRun) -> str:
    """Return why it isn't known whether a run fits."""
    if run.report is None:
        return run.error or ""
    if run.report.outcome == "failed" and run.report.error:
        return f"the program failed: {run.report.error}"
    return verdict_line(run.report)


def _best(found: DryrunLargest) -> DryrunReport | None:
    return next((one.run.report for one in found.tried if one.value == found.largest_value), None)


def largest_document(found: DryrunLargest) -> Document:
    """Build the answer, and a table of the numbers that were tried."""
    rows = tuple(run_row(one.run) for one in sorted(found.tried, key=lambda one: one.value))
    table = Table(TITLES, ("left", "right", "right", "right", "left", "left"), rows)
    best = _best(found)
    warnings = [Note(words, "warning") for words in (warnings_of(best) if best else ())]
    runs = counted(len(found.tried), "run")
    note = Note(f"{runs}, assuming that a larger number needs at least as much memory")
    return (Heading((answer_line(found),)), table, *warnings, note)
