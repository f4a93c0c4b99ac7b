"""A gate's notes: doubts that don't make it fail."""

from __future__ import annotations

from collections.abc import Sequence

from memreplay.analysis.comparing.sides import PHASE_WORDS
from memreplay.analysis.selecting.sizes import share_of
from memreplay.gating.result import Finding, GatedFile
from memreplay.render.frames import fewer_text
from memreplay.render.ranges import ranges_text
from memreplay.render.units import percent, size


def gate_notes(file: GatedFile, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return one note per line: about an overflowed buffer, about different rules or ranges, or
    about undecided limits.
    """
    notes = []
    findings = tuple(findings)
    # Limits that couldn't be checked because of the overflow already have a message.
    if file.overflowed_devices and not any(one.reasons for one in findings if one.kind != "trust"):
        devices = ", ".join(map(str, file.overflowed_devices))
        notes.append(
            f"device {devices}: the recorder's ring buffer was full, or probably full: the"
            " snapshot shows only the last events, and an earlier, higher peak may be"
            " missing"
        )
    notes += _hidden_growth(file, findings)
    if file.rules_changed:
        notes.append(
            "the category rules differ from the baseline's, so categories may have"
            " changed even if the program didn't; save the baseline again"
        )
    if file.ranges is not None:
        notes.append(f"{ranges_text(*file.ranges)}; use the same range for both")
    if file.fewer and any(map(_compares_code, findings)):
        notes.append(fewer_text(file.fewer, file.frames))
    skipped = [one for one in findings if one.outcome in ("skipped", "not_judged")]
    return (*notes, *(one.message for one in skipped))


def _hidden_growth(file: GatedFile, findings: Sequence[Finding]) -> list[str]:
    """Return a note for each phase that grew more than the whole run is allowed to.

    A higher peak elsewhere hides such growth until the card is too small.
    """
    limits = [
        one
        for one in findings
        if one.kind in ("max_growth", "max_growth_bytes")
        and one.outcome == "passed"
        and one.category is one.annotation is one.phase is None
    ]
    limited = {(one.device, one.phase) for one in findings if one.phase is not None}
    notes = []
    for limit in limits:
        for one in file.phases:
            if (one.device, one.measure) != (limit.device, limit.measure) or not one.base_bytes:
                continue
            if (one.device, one.phase) in limited or limit.limit_bytes is None:
                continue
            if limit.limit_share is not None:
                most = share_of(one.base_bytes, limit.limit_share)
            else:
                most = limit.limit_bytes - (limit.base_bytes or 0)
            grown = one.bytes - one.base_bytes
            if grown > most:
                share = percent(grown / one.base_bytes)
                notes.append(
                    f"the peak within the {PHASE_WORDS[one.phase]} grew by {size(grown)} ({share}),"
                    " more than the limit on the whole allows; --phase each checks every phase"
                )
    return list(dict.fromkeys(notes))


def _compares_code(finding: Finding) -> bool:
    """Return whether a finding depends on both snapshots' stacks."""
    return finding.category is not None or any(
        one.change_bytes is not None for one in finding.causes
    )
