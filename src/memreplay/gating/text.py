"""Format a gate's result for people; the first line is a separate summary."""

from __future__ import annotations

from memreplay.gating.messages import (
    actual_text,
    cause_name,
    causes_text,
    limit_text,
    phase_rows,
    rule_text,
    subject_text,
)
from memreplay.gating.result import Cause, Finding, GatedFile, GateReport
from memreplay.gating.worst import rest_text, rows_of, worst_files
from memreplay.render.document import Block, Document, Heading, Note, Place, Row, Table
from memreplay.render.fit import cut_right
from memreplay.render.units import signed_size, size
from memreplay.texts import clean

MOST_CELLS = 40  # maximum width of a budget's name, in cells
WORDS = {"passed": "ok", "failed": "FAIL", "not_judged": "FAIL", "skipped": "-"}


def gate_document(report: GateReport, most: int = 0) -> Document:
    """Build a section with limits, growth and notes for each of the `most` worst files (0: all),
    then a summary of the others.
    """
    shown = tuple(block for file in worst_files(report, most) for block in _section(file))
    rest = "; ".join(rest_text(report, most))
    return (*shown, Note(rest)) if rest else shown


def _section(file: GatedFile) -> list[Block]:
    head = [Place(file=file.file)]
    if file.base_file is not None:
        head.append(Place(file=file.base_file, note="(base)"))
    blocks: list[Block] = [Heading((place,)) for place in head]
    if file.error:
        return [*blocks, Note(file.error, "warning")]
    blocks.append(_limits(rows_of(file)))
    phases = phase_rows(file)
    if phases:
        titles = ("bytes", "since base" if file.base_file is not None else "", "peak within")
        blocks.append(Table(titles, ("right", "right", "left"), tuple(map(Row, phases))))
    told: set[tuple[object, ...]] = set()
    for finding in file.findings:
        if finding.failed and finding.causes and finding.causes not in told:
            told.add(finding.causes)
            blocks += _causes(finding)
    blocks += [Note(text, "warning" if file.overflowed_devices else "note") for text in file.notes]
    return blocks


def _limits(findings: list[Finding]) -> Table:
    rows = tuple(
        Row(
            (
                WORDS[one.outcome],
                cut_right(clean(rule_text(one)), MOST_CELLS),
                _actual(one),
                limit_text(one) if one.kind != "trust" and one.limit_bytes is not None else "",
                "" if one.change_bytes is None else signed_size(one.change_bytes),
                subject_text(one, findings),
            ),
            style="warning" if one.failed else "plain",
        )
        for one in findings
    )
    since = "since base" if any(one.change_bytes is not None for one in findings) else ""
    titles = ("", "rule", "actual", "limit", since, "measured")
    return Table(titles, ("left", "left", "right", "right", "right", "left"), rows)


def _actual(finding: Finding) -> str:
    if finding.outcome == "not_judged":
        return "not judged"
    return actual_text(finding) if finding.kind != "trust" else "no"


def _place(cause: Cause) -> Place | str:
    return Place.of(cause_name(cause)) if cause.file else cause.label


def _causes(finding: Finding) -> list[Block]:
    grown = finding.causes[0].change_bytes is not None
    rows = tuple(
        Row(
            (
                signed_size(one.change_bytes) if one.change_bytes is not None else size(one.bytes),
                size(one.bytes) if one.change_bytes is not None else "",
                _place(one),
            )
        )
        for one in finding.causes
    )
    titles = (
        "change" if grown else "bytes",
        "now" if grown else "",
        f"{cut_right(clean(rule_text(finding)), MOST_CELLS)}: {causes_text(finding)}",
    )
    return [Table(titles, ("right", "right", "left"), rows)]
