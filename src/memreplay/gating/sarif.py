"""Write a gate's result as SARIF 2.1.0, for code scanning."""

from __future__ import annotations

import string

from memreplay.gating.result import Finding, GatedFile, GateReport, Kind
from memreplay.io.version import __version__
from memreplay.render.strict_json import to_json
from memreplay.texts import clean, sarif_text

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_PLAIN = frozenset(string.ascii_letters + string.digits + "-._~/")
_MOST_LINE = 2**31 - 1
RULES: dict[Kind, str] = {
    "max_peak": "The peak of memory is above its limit.",
    "max_growth": "The peak of memory grew by more than its limit since the base.",
    "max_growth_bytes": "The peak of memory grew by more than its limit since the base.",
    "max_reserved": "The peak of reserved memory is above its limit.",
    "max_fragmentation": "Peak reserved is above peak active memory by more than its limit.",
    "max_spread": "The peak of memory is above the median of all snapshots by more than its limit.",
    "forbid_leaks": "Memory grows from step to step.",
    "forbid_oom": "An allocation failed.",
    "trust": "The snapshot contradicts itself or is incomplete, so its numbers may be wrong.",
}
_UNREADABLE = "unreadable"
# SARIF's own `kind` for undecided results ("open") has no level, so code scanning wouldn't show
# them.
_NOT_JUDGED = "not_judged"


def render_gate_sarif(report: GateReport) -> str:
    """Return one run: errors for failed and undecided limits, notes for skipped ones.

    Findings without a location refer to the snapshot file, because code scanning requires a
    location.
    """
    rules: list[str] = [*RULES, _UNREADABLE, _NOT_JUDGED]
    texts: dict[str, str] = {
        _UNREADABLE: "The snapshot cannot be read.",
        _NOT_JUDGED: "The snapshot isn't enough to check a limit.",
    } | RULES
    results = [
        result
        for file in report.files
        for result in [
            *_unreadable(file, rules),
            *(_result(file, one, rules) for one in file.findings if one.outcome != "passed"),
        ]
    ]
    return to_json(
        {
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "memreplay",
                            "version": __version__,
                            "rules": [
                                {
                                    "id": _id(rule),
                                    "shortDescription": {"text": texts[rule]},
                                }
                                for rule in rules
                            ],
                        }
                    },
                    "columnKind": "unicodeCodePoints",
                    "results": results,
                }
            ],
        },
        indent=2,
    )


def _id(rule: str) -> str:
    return f"memreplay/{rule.replace('_', '-')}"


def _unreadable(file: GatedFile, rules: list[str]) -> list[dict[str, object]]:
    if not file.error:
        return []
    return [
        {
            "ruleId": _id(_UNREADABLE),
            "ruleIndex": rules.index(_UNREADABLE),
            "level": "error",
            "message": {"text": sarif_text(file.error)},
            "locations": [_location(_uri(file.file), 0)],
        }
    ]


def _result(file: GatedFile, finding: Finding, rules: list[str]) -> dict[str, object]:
    place = finding.file if finding.repository_file is None else finding.repository_file
    location = _location(_uri(file.file if place is None else place), finding.line or 0)
    rule = _NOT_JUDGED if finding.outcome == "not_judged" else finding.kind
    of = "|".join(
        str(one)
        for one in (
            finding.rule,
            finding.device,
            finding.measure,
            finding.category,
            finding.annotation,
        )
    )
    return {
        "ruleId": _id(rule),
        "ruleIndex": rules.index(rule),
        "level": "error" if finding.failed else "note",
        "message": {"text": sarif_text(finding.message)},
        "locations": [location],
        "partialFingerprints": {"memreplayBudget/v1": _quoted(clean(of))},
    }


def _location(uri: str, line: int) -> dict[str, object]:
    physical: dict[str, object] = {"artifactLocation": {"uri": uri}}
    if 0 < line <= _MOST_LINE:
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical}


def _uri(path: str) -> str:
    """Return a path as a URI reference, escaping invalid names."""
    quoted = _quoted(path.replace("\\", "/"))
    return f"file://{quoted}" if quoted.startswith("/") else quoted


def _quoted(text: str) -> str:
    """Percent-encode everything except slashes and RFC 3986's unreserved characters."""
    data = text.encode("utf-8", "backslashreplace")
    return "".join(chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in data)
