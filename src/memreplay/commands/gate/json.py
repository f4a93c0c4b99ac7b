"""Writes what a gate found as JSON, schema memreplay.gate/1 (docs/json.md)."""

from __future__ import annotations

from collections.abc import Callable

from memreplay.commands.gate.notes import gate_notes
from memreplay.commands.gate.result import Cause, Finding, GatedFile, GateReport
from memreplay.commands.gate.words import finding_words, headline
from memreplay.render.strict_json import to_json

SCHEMA = "memreplay.gate/1"


def render_gate_json(report: GateReport, in_repository: Callable[[str], str | None]) -> str:
    """One indented object. `in_repository` gives the path of a recorded file below the repository,
    None for one that is not there."""

    def listed(*outcomes: str) -> list[dict[str, object]]:
        return [
            _finding(file, one, in_repository)
            for file in report.files
            for one in file.findings
            if one.outcome in outcomes
        ]

    return to_json(
        {
            "schema": SCHEMA,
            "passed": report.passed,
            "headline": headline(report),
            "files": [_file(file) for file in report.files],
            "findings": listed("failed"),
            "kept": listed("passed"),
            "not_judged": listed("not_judged", "skipped"),
        },
        indent=2,
    )


def _file(file: GatedFile) -> dict[str, object]:
    return {
        "file": file.file,
        "base_file": file.base_file,
        "passed": file.passed,
        "error": file.error or None,
        "exit_code": file.exit_code,
        "overflowed": list(file.overflowed),
        "notes": list(gate_notes(file)),
    }


def _finding(
    file: GatedFile, finding: Finding, in_repository: Callable[[str], str | None]
) -> dict[str, object]:
    place = finding.place
    return {
        "rule": finding.rule,
        "kind": finding.kind,
        "outcome": finding.outcome,
        "message": finding_words(finding, file),
        "snapshot": file.file,
        "device": finding.device,
        "measure": finding.measure,
        "category": finding.category,
        "annotation": finding.annotation,
        "limit_bytes": finding.limit_bytes,
        "limit_share": finding.limit_share,
        "actual_bytes": finding.actual_bytes,
        "base_bytes": finding.base_bytes,
        "change_bytes": finding.growth_bytes,
        "reserved_bytes": finding.reserved_bytes,
        "event_index": finding.event_index,
        "count": finding.count,
        "reasons": list(finding.reasons),
        "of_base": finding.of_base,
        "function": place.function if place else None,
        "file": place.file if place else None,
        "line": place.line if place else None,
        "repository_file": in_repository(place.file) if place else None,
        "causes": [_cause(cause) for cause in finding.causes],
    }


def _cause(cause: Cause) -> dict[str, object]:
    return {
        "label": cause.label,
        "bytes": cause.bytes,
        "change_bytes": cause.change_bytes,
        "function": cause.function,
        "file": cause.file,
        "line": cause.line,
    }
