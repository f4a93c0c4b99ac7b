"""Writes what a gate found as a document for people; its first line is apart, and says it all."""

from __future__ import annotations

from memreplay.gating.result import Cause, Finding, GatedFile, GateReport
from memreplay.gating.shown import rest_words, rows_of, shown_files
from memreplay.gating.words import (
    actual_words,
    cause_name,
    causes_words,
    limit_words,
    of_words,
    phase_rows,
    rule_words,
)
from memreplay.render.document import Block, Document, Heading, Note, Place, Row, Table
from memreplay.render.fit import cut_right
from memreplay.render.units import signed_size, size
from memreplay.texts import clean

MOST_CELLS = 40  # of a budget's name
WORDS = {"passed": "ok", "failed": "FAIL", "not_judged": "FAIL", "skipped": "-"}


def gate_document(report: GateReport, most: int = 0) -> Document:
    """A section for each of the `most` worst files (0: all): its limits, what grew, and notes; and
    what of the others is not shown."""
    shown = tuple(block for file in shown_files(report, most) for block in _section(file))
    rest = "; ".join(rest_words(report, most))
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
        titles = ("peak", "since base" if file.base_file is not None else "", "within")
        blocks.append(Table(titles, ("right", "right", "left"), tuple(map(Row, phases))))
    told: set[tuple[object, ...]] = set()
    for finding in file.findings:
        if finding.failed and finding.causes and finding.causes not in told:
            told.add(finding.causes)
            blocks += _causes(finding)
    blocks += [Note(text, "warning" if file.overflowed else "note") for text in file.notes]
    return blocks


def _limits(findings: list[Finding]) -> Table:
    rows = tuple(
        Row(
            (
                WORDS[one.outcome],
                cut_right(clean(rule_words(one)), MOST_CELLS),
                _actual(one),
                limit_words(one) if one.kind != "trust" and one.limit_bytes is not None else "",
                "" if one.change_bytes is None else signed_size(one.change_bytes),
                of_words(one, findings),
            ),
            style="warning" if one.failed else "plain",
        )
        for one in findings
    )
    titles = ("", "rule", "actual", "limit", "since base", "of")
    return Table(titles, ("left", "left", "right", "right", "right", "left"), rows)


def _actual(finding: Finding) -> str:
    if finding.outcome == "not_judged":
        return "not judged"
    return actual_words(finding) if finding.kind != "trust" else "no"


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
        f"{cut_right(clean(rule_words(finding)), MOST_CELLS)}: {causes_words(finding)}",
    )
    return [Table(titles, ("right", "right", "left"), rows)]
