"""What a gate says besides its findings: doubts that do not fail it."""

from __future__ import annotations

from collections.abc import Sequence

from memreplay.commands.gate.result import Finding, GatedFile
from memreplay.render.frames import fewer_words
from memreplay.render.ranges import ranges_words


def gate_notes(file: GatedFile, findings: Sequence[Finding]) -> tuple[str, ...]:
    """A line each: a ring buffer that overflowed, rules or events that are others, what of the
    findings could not be judged; these have their messages."""
    notes = []
    if file.overflowed:
        devices = ", ".join(map(str, file.overflowed))
        notes.append(
            f"device {devices}: the recorder's ring buffer was full: what is left is exact, but an"
            " earlier, higher peak may be missing (--strict fails on it)"
        )
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


def _compares_code(finding: Finding) -> bool:
    """Whether a finding depends on what stacks say of both."""
    return finding.category is not None or any(
        one.change_bytes is not None for one in finding.causes
    )
