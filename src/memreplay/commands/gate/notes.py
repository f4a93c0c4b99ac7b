"""What a gate says besides its findings: doubts that do not fail it."""

from __future__ import annotations

from collections.abc import Iterable

from memreplay.commands.gate.result import Finding, GatedFile
from memreplay.render.ranges import ranges_words


def gate_notes(file: GatedFile, findings: Iterable[Finding]) -> tuple[str, ...]:
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
    skipped = [one for one in findings if one.outcome in ("skipped", "not_judged")]
    return (*notes, *(one.message for one in skipped))
