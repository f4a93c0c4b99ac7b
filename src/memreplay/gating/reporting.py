"""Build the gate's report: messages, and locations in the repository."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from memreplay.gating.messages import finding_text, headline
from memreplay.gating.notes import gate_notes
from memreplay.gating.result import Finding, GatedFile, GateReport


def nowhere(_path: str) -> str | None:
    """Return None, because there is no repository."""
    return None


def gate_report(
    files: Iterable[GatedFile],
    in_repository: Callable[[str], str | None] = nowhere,
    *,
    missing_ranks: tuple[int, ...] = (),
    dumps_choice: str = "",
) -> GateReport:
    """Build the report.

    `in_repository` maps a recorded file to its path in the repository, or None; `dumps_choice` says
    which dumps were checked.
    """
    told = tuple(_told(file, in_repository) for file in files)

    def of(*outcomes: str) -> tuple[Finding, ...]:
        return tuple(one for file in told for one in file.findings if one.outcome in outcomes)

    return GateReport(
        passed=all(file.passed for file in told),
        headline=headline(told),
        files=told,
        findings=of("failed"),
        kept=of("passed"),
        not_judged=of("not_judged", "skipped"),
        missing_ranks=missing_ranks,
        dumps_choice=dumps_choice,
    )


def _told(file: GatedFile, in_repository: Callable[[str], str | None]) -> GatedFile:
    findings = tuple(_finding(one, file, in_repository) for one in file.findings)
    return replace(file, findings=findings, notes=gate_notes(file, findings))


def _finding(one: Finding, file: GatedFile, in_repository: Callable[[str], str | None]) -> Finding:
    place = one.place
    return replace(
        one,
        message=finding_text(one, file),
        snapshot=file.file,
        change_bytes=one.growth_bytes,
        function=place.function if place else None,
        file=place.file if place else None,
        line=place.line if place else None,
        repository_file=in_repository(place.file) if place else None,
    )
