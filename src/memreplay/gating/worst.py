"""Select the worst of many files to show, and summarize the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.render.ranks import rank_list_text
from memreplay.render.units import counted

if TYPE_CHECKING:
    from memreplay.gating.result import Finding, GatedFile, GateReport


def worst_files(report: GateReport, most: int = 0) -> tuple[GatedFile, ...]:
    """Return the files to show.

    If there are at most `most` files, or if `most` is 0, these are all files. Otherwise, these are
    up to `most` undecided files, and up to `most` others that broke their limits by most or came
    closest.
    """
    files = [one for one in report.files if one.error or one.notes or rows_of(one)]
    if not most or len(files) <= most:
        return tuple(files)
    broken = [one for one in files if one.error]
    judged = sorted((one for one in files if not one.error), key=_badness, reverse=True)
    return (*broken[:most], *judged[:most])


def rows_of(file: GatedFile) -> list[Finding]:
    """Return a file's rows, leaving out `trust` if the numbers are trustworthy."""
    return [one for one in file.findings if one.kind != "trust" or one.reasons]


def rest_text(report: GateReport, most: int = 0) -> tuple[str, ...]:
    """Return a line each about files not shown, missing ranks, and the dumps that were judged."""
    said = []
    shown = {id(one) for one in worst_files(report, most)}
    rest = [one for one in report.files if id(one) not in shown]
    if rest:
        failed = sum(not one.passed for one in rest)
        more = counted(len(rest), "more file")
        hint = " (--top 0 shows all)" if most and failed else ""
        numbers = f": {failed:,} failed, {len(rest) - failed:,} passed" if failed else " passed"
        said.append(f"{more}{numbers}{hint}")
    if report.missing_ranks:
        said.append(f"no file of {rank_list_text(report.missing_ranks)}")
    if report.dumps_choice:
        said.append(report.dumps_choice)
    return tuple(said)


def _badness(file: GatedFile) -> tuple[bool, bool, float]:
    """Return a sort key that puts undecided files first, as the first line does, and then sorts by
    the worst limit.
    """
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
