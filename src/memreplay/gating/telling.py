"""Makes a report of what a gate found in each file: says it in words, and where in the repository
the code is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from memreplay.gating.notes import gate_notes
from memreplay.gating.result import Finding, GatedFile, GateReport
from memreplay.gating.words import finding_words, headline


def nowhere(_path: str) -> str | None:
    """Where code is if there is no repository."""
    return None


def gate_report(
    files: Iterable[GatedFile],
    in_repository: Callable[[str], str | None] = nowhere,
    *,
    missing_ranks: tuple[int, ...] = (),
    dumps_choice: str = "",
) -> GateReport:
    """The whole. `in_repository` gives the path of a recorded file below the repository, None for
    one that is not there; `dumps_choice` says which dumps were judged."""
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
        message=finding_words(one, file),
        snapshot=file.file,
        change_bytes=one.growth_bytes,
        function=place.function if place else None,
        file=place.file if place else None,
        line=place.line if place else None,
        repository_file=in_repository(place.file) if place else None,
    )
