"""The result of `memreplay dryrun --compare`."""

from __future__ import annotations

from memreplay.analysis.comparing.operators import OperatorCause
from memreplay.commands.dryrun.result import DryrunReport
from memreplay.render.document import Answer, Document
from memreplay.snapshot.record import Record


class ComparedRun(Record, frozen=True):
    """One run."""

    name: str
    """The card or settings, as given to `--compare`."""
    report: DryrunReport | None
    """The run's report; null if there is none."""
    error: str | None = None
    """The reason for the missing report."""
    change_bytes: int = 0
    """How much higher the peak of requested memory is than that of the run `lowest`."""
    causes: tuple[OperatorCause, ...] = ()
    """The operators that hold this memory, as far as they explain it, largest part first."""


class DryrunComparison(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.dryrun-comparison/1"
):
    """The result of `memreplay dryrun --compare`: the same program, run once for each card or
    setting.
    """

    runs: tuple[ComparedRun, ...]
    """The runs, in the given order."""
    lowest: str | None
    """The run with the lowest peak of requested memory, of those that ended normally; null if none
    did.
    """

    def document(self) -> Document:
        from memreplay.commands.dryrun.comparing import comparison_document

        return comparison_document(self)
