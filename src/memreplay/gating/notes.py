"""What a gate says besides its findings: doubts that do not fail it."""

from __future__ import annotations

from collections.abc import Sequence

from memreplay.analysis.comparing.sides import PHASE_WORDS
from memreplay.analysis.selecting.sizes import share_of
from memreplay.gating.result import Finding, GatedFile
from memreplay.render.frames import fewer_words
from memreplay.render.ranges import ranges_words
from memreplay.render.units import percent, size


def gate_notes(file: GatedFile, findings: Sequence[Finding]) -> tuple[str, ...]:
    """A line each: a ring buffer that overflowed, rules or events that are others, what of the
    findings could not be judged; these have their messages."""
    notes = []
    findings = tuple(findings)
    # A limit that could not be judged for that says it by itself.
    if file.overflowed and not any(one.reasons for one in findings if one.kind != "trust"):
        devices = ", ".join(map(str, file.overflowed))
        notes.append(
            f"device {devices}: the recorder's ring buffer was full, or probably full: the"
            " snapshot shows the last events only, and an earlier, higher peak may be missing"
        )
    notes += _hidden_growth(file, findings)
    if file.rules_changed:
        notes.append(
            "the category rules differ from the baseline's, so categories may have changed"
            " although the program did not; write the baseline again"
        )
    if file.ranges is not None:
        notes.append(f"{ranges_words(*file.ranges)}; give both the same range")
    if file.fewer and any(map(_compares_code, findings)):
        notes.append(fewer_words(file.fewer, file.frames))
    skipped = [one for one in findings if one.outcome in ("skipped", "not_judged")]
    return (*notes, *(one.message for one in skipped))


def _hidden_growth(file: GatedFile, findings: Sequence[Finding]) -> list[str]:
    """A line for each phase that grew by more than the whole may: a higher peak elsewhere hides
    it, until a card is too small."""
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
                    " more than the limit on the whole allows; --phase each limits every phase"
                )
    return list(dict.fromkeys(notes))


def _compares_code(finding: Finding) -> bool:
    """Whether a finding depends on what stacks say of both."""
    return finding.category is not None or any(
        one.change_bytes is not None for one in finding.causes
    )
