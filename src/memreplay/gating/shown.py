"""Which files of many are shown: the worst ones; and what is said of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.render.ranks import ranks_words
from memreplay.render.units import counted

if TYPE_CHECKING:
    from memreplay.gating.result import Finding, GatedFile, GateReport


def shown_files(report: GateReport, most: int = 0) -> tuple[GatedFile, ...]:
    """All of them where there are at most `most`, or that is 0; else so many that cannot be
    judged, and so many others, what broke its limits by most or came closest to them first."""
    files = [one for one in report.files if one.error or one.notes or rows_of(one)]
    if not most or len(files) <= most:
        return tuple(files)
    broken = [one for one in files if one.error]
    judged = sorted((one for one in files if not one.error), key=_badness, reverse=True)
    return (*broken[:most], *judged[:most])


def rows_of(file: GatedFile) -> list[Finding]:
    """What a table of a file's limits has rows of: that numbers can be trusted goes unsaid."""
    return [one for one in file.findings if one.kind != "trust" or one.reasons]


def rest_words(report: GateReport, most: int = 0) -> tuple[str, ...]:
    """A line each: how many files are not shown, which ranks have none, and which of their
    dumps were judged."""
    said = []
    shown = {id(one) for one in shown_files(report, most)}
    rest = [one for one in report.files if id(one) not in shown]
    if rest:
        failed = sum(not one.passed for one in rest)
        more = counted(len(rest), "more file")
        hint = " (--top 0 shows all)" if most and failed else ""
        numbers = f": {failed:,} failed, {len(rest) - failed:,} passed" if failed else " passed"
        said.append(f"{more}{numbers}{hint}")
    if report.missing_ranks:
        said.append(f"no file of {ranks_words(report.missing_ranks)}")
    if report.dumps_choice:
        said.append(report.dumps_choice)
    return tuple(said)


def _badness(file: GatedFile) -> tuple[bool, bool, float]:
    """Doubts first, as in the first line; then by the limit that is broken by most, or closest."""
    shares = [_share(one) for one in file.findings if one.failed] or [
        _share(one) for one in file.findings
    ]
    doubted = any(one.kind == "trust" and one.failed for one in file.findings)
    return not file.passed, doubted, max(shares, default=0.0)


def _share(finding: Finding) -> float:
    if finding.limit_bytes is None or finding.actual_bytes is None:
        return 0.0
    if not finding.limit_bytes:
        return float("inf") if finding.actual_bytes else 0.0
    return finding.actual_bytes / finding.limit_bytes
