"""The result of `memreplay dryrun --compare`: a report for each run."""

from __future__ import annotations

from memreplay.commands.dryrun.result import DryrunReport
from memreplay.render.document import Answer, Document
from memreplay.snapshot.record import Record


class ComparedRun(Record, frozen=True):
    """One of the runs."""

    name: str
    """The card or the settings, as `--compare` has them."""
    report: DryrunReport | None
    """What it found; null where there is nothing to tell of."""
    error: str | None = None
    """Why there is nothing to tell of."""


class DryrunComparison(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.dryrun-comparison/1"
):
    """What `memreplay dryrun --compare` found: the same program, run once for each."""

    runs: tuple[ComparedRun, ...]
    """In the order in which they were asked for."""

    def document(self) -> Document:
        from memreplay.commands.dryrun.comparing import comparison_document

        return comparison_document(self)
