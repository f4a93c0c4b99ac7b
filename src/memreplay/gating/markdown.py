"""Write a gate's result as Markdown, for a pull request's summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memreplay.gating.messages import (
    actual_text,
    cause_text,
    causes_text,
    limit_text,
    phase_rows,
    rule_text,
    subject_text,
)
from memreplay.gating.result import Finding, GatedFile, GateReport
from memreplay.gating.text import WORDS
from memreplay.gating.worst import rest_text, rows_of, worst_files
from memreplay.render.units import signed_size, size
from memreplay.texts import markdown_line, markdown_text


def render_gate_markdown(report: GateReport, most: int = 0) -> str:
    """Return a heading, the summary line, and tables for the `most` worst files (0: all)."""
    state = "passed" if report.passed else "failed"
    parts = [f"### memreplay gate {state}", f"**{markdown_text(report.headline)}**"]
    for file in worst_files(report, most):
        parts += _section(file, several=len(report.files) > 1)
    parts += [markdown_line(words) for words in rest_text(report, most)]
    return "\n\n".join(parts) + "\n"


def _section(file: GatedFile, *, several: bool) -> list[str]:
    base = "" if file.base_file is None else f", since {file.base_file}"
    parts = [markdown_line(f"{file.file}{base}")] if several or base else []
    if file.error:
        return [*parts, markdown_line(file.error)]
    shown = rows_of(file)
    if shown:
        parts.append(
            _table(
                ("", "rule", "of", "actual", "limit", "since base"),
                (_limit_row(one, shown) for one in shown),
                range(3, 6),
            )
        )
    phases = phase_rows(file)
    if phases:
        parts.append(_table(("peak", "since base", "within"), phases, range(2)))
    told: set[tuple[object, ...]] = set()
    for finding in file.findings:
        if finding.failed and finding.causes and finding.causes not in told:
            told.add(finding.causes)
            grown = finding.causes[0].change_bytes is not None
            title = markdown_text(f"{rule_text(finding)}: {causes_text(finding)}")
            rows = [
                (
                    size(one.bytes) if one.change_bytes is None else signed_size(one.change_bytes),
                    cause_text(one),
                )
                for one in finding.causes
            ]
            parts.append(_table(("change" if grown else "bytes", title), rows, range(1)))
    parts += [f"- {markdown_line(note)}" for note in file.notes]
    return parts


def _limit_row(finding: Finding, among: Sequence[Finding]) -> tuple[str, ...]:
    trust = finding.kind == "trust"
    return (
        WORDS[finding.outcome],
        rule_text(finding),
        subject_text(finding, among),
        "not judged" if finding.outcome == "not_judged" else "" if trust else actual_text(finding),
        "" if trust or finding.limit_bytes is None else limit_text(finding),
        "" if finding.change_bytes is None else signed_size(finding.change_bytes),
    )


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: range) -> str:
    marks = ["---:" if i in right else "---" for i in range(len(titles))]
    cells = [titles, marks, *(map(markdown_text, row) for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
