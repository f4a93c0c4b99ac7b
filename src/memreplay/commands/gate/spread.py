"""Whether one of several snapshots is far above the others: `max_spread`, of all files together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memreplay.analysis.selecting.sizes import share_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.commands.gate.result import Cause, Finding, GatedFile


class Peak(NamedTuple):
    """The highest peak of a file: of the device that stands for it."""

    bytes: int
    file: int  # its place among the files
    finding: Finding


def with_spread(
    files: Sequence[GatedFile], explain: Callable[[Peak, Peak], tuple[Cause, ...]]
) -> list[GatedFile]:
    """The files with one finding for each budget of `max_spread`, of the highest of them; each file
    had its own peak as a finding until now. Where a limit is broken, `explain` says which code
    makes the second of two peaks higher than the first.

    The median is that of the files' peaks, of an even number the mean of the two in the middle,
    rounded down; the file that the highest is compared with has the lower of these two.
    """
    peaks: dict[int, list[Peak]] = {}
    for at, file in enumerate(files):
        own: dict[int, Peak] = {}
        for one in file.findings:
            if one.kind == "max_spread":
                peak = Peak(one.actual_bytes or 0, at, one)
                own[one.budget] = max(own.get(one.budget, peak), peak, key=lambda p: p.bytes)
        for budget, peak in own.items():
            peaks.setdefault(budget, []).append(peak)
    made = {}
    for budget, some in peaks.items():
        highest = max(some, key=lambda peak: peak.bytes)
        unsure = next((peak for peak in some if peak.finding.reasons), None)
        if unsure is None:
            made[budget] = highest, _judged(highest, some, explain)
        else:  # it may be higher than all others
            detail = f"{files[unsure.file].file}: {unsure.finding.detail}"
            made[budget] = (
                highest,
                replace(highest.finding, reasons=unsure.finding.reasons, detail=detail),
            )
    return [_with(file, at, made) for at, file in enumerate(files)]


def _judged(
    highest: Peak, peaks: Sequence[Peak], explain: Callable[[Peak, Peak], tuple[Cause, ...]]
) -> Finding:
    finding = highest.finding
    if len(peaks) < 2:
        return finding
    ordered = sorted(peaks, key=lambda peak: peak.bytes)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    median = (low.bytes + high.bytes) // 2
    limit = median + share_of(median, finding.limit_share or 0.0)
    found = replace(
        finding,
        outcome="passed",
        detail="",
        limit_bytes=limit,
        median_bytes=median,
        count=len(peaks),
    )
    if highest.bytes <= limit:
        return found
    return replace(found, outcome="failed", causes=explain(low, highest))


def _with(file: GatedFile, at: int, made: dict[int, tuple[Peak, Finding]]) -> GatedFile:
    """The file with what was found of all where it is the highest, and without where it is not."""
    findings: list[Finding] = []
    for one in file.findings:
        if one.kind != "max_spread":
            findings.append(one)
            continue
        highest, finding = made[one.budget]
        if highest.file == at and highest.finding is one:
            findings.append(finding)
    if len(findings) == len(file.findings) and all(map(_same, findings, file.findings)):
        return file
    passed = not file.error and not any(one.failed for one in findings)
    return replace(file, findings=tuple(findings), passed=passed)


def _same(one: Finding, other: Finding) -> bool:
    return one is other
