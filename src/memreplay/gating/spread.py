"""Find a snapshot that is far above the others (`max_spread` over all files)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memreplay.analysis.selecting.sizes import share_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.gating.result import Cause, Finding, GatedFile


class Peak(NamedTuple):
    """A file's highest peak over its devices."""

    bytes: int
    file: int  # index of the file
    finding: Finding


def with_spread(
    files: Sequence[GatedFile],
    explain: Callable[[Peak, Peak], tuple[Cause, ...]],
    *,
    apart: bool = False,
) -> list[GatedFile]:
    """Replace each file's `max_spread` findings with one finding for the file with the highest
    peak.

    For a single file, its devices are compared. If a limit is broken, `explain` returns the code
    through which the second peak exceeds the first. `apart`: treat each dump separately.

    The median is taken over the files' peaks. For an even number of files, it's the rounded-down
    mean of the two in the middle, and the highest file is compared with the lower of these two.
    """
    peaks: dict[tuple[int, str | None], list[Peak]] = {}
    alone = len(files) == 1
    for at, file in enumerate(files):
        own: dict[int, list[Peak]] = {}
        for one in file.findings:
            if one.kind == "max_spread":
                own.setdefault(one.budget, []).append(Peak(one.actual_bytes or 0, at, one))
        for budget, found in own.items():
            stands = found if alone else [max(found, key=lambda peak: peak.bytes)]
            peaks.setdefault((budget, file.dump if apart else None), []).extend(stands)
    made = {}
    for key, some in peaks.items():
        highest = max(some, key=lambda peak: peak.bytes)
        unsure = next((peak for peak in some if peak.finding.reasons), None)
        if unsure is None and apart and not alone and len(some) < 2:
            finding = replace(highest.finding, detail="it needs several files of one dump")
            made[key] = highest, finding
        elif unsure is None:
            judged = _judged(highest, some, explain)
            made[key] = highest, replace(judged, of_devices=alone and len(some) > 1)
        else:  # the unknown peak may be the highest of all
            detail = f"{files[unsure.file].file}: {unsure.finding.detail}"
            made[key] = (
                highest,
                replace(highest.finding, reasons=unsure.finding.reasons, detail=detail),
            )
    return [
        _with(
            file,
            at,
            {key[0]: value for key, value in made.items() if not apart or key[1] == file.dump},
        )
        for at, file in enumerate(files)
    ]


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
    """Return the file, with the overall finding if it has the highest peak."""
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
