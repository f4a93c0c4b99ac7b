"""What a gate says besides its findings: doubts that do not fail it."""

from __future__ import annotations

from memreplay.reports.gate_words import finding_words
from memreplay.reports.ranges import ranges_words
from memreplay.results.gate import GatedFile


def gate_notes(file: GatedFile) -> tuple[str, ...]:
    """A line each: a ring buffer that overflowed, rules or events that are others, what could not
    be judged."""
    notes = []
    if file.overflowed:
        devices = ", ".join(map(str, file.overflowed))
        notes.append(
            f"device {devices}: the recorder's ring buffer was full: what is left is exact, but an"
            " earlier and higher peak would not show (--strict fails on it)"
        )
    if file.rules_changed:
        notes.append(
            "the rules of categories are not those of the baseline, so what is of a category may"
            " have changed without the program; make the baseline anew"
        )
    if file.ranges is not None:
        notes.append(f"{ranges_words(*file.ranges)}; give the gate the same as the baseline")
    skipped = [one for one in file.findings if one.outcome in ("skipped", "not_judged")]
    return (*notes, *(finding_words(one, file) for one in skipped))
