"""The result of `memreplay dryrun --largest`."""

from __future__ import annotations

from memreplay.commands.dryrun.comparing_result import ComparedRun
from memreplay.render.document import Answer, Document
from memreplay.snapshot.record import Record


class TriedValue(Record, frozen=True):
    """A number that was tried."""

    value: int
    """The number."""
    run: ComparedRun
    """The run with this number; its name is the argument, such as `--batch 48`."""


class DryrunLargest(
    Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.dryrun-largest/1"
):
    """The result of `memreplay dryrun --largest`: the largest number that fits the card."""

    argument: str
    """The part of the command with the number, such as `--batch {}`."""
    gpu: str
    """Name of the card."""
    min_value: int
    """The first number tried."""
    max_value: int
    """The limit."""
    value_step: int
    """The distance between possible numbers."""
    largest_value: int | None
    """The largest number that fits; null if none does."""
    next_fits: bool | None
    """Whether the next larger number fits: false if it was tried and doesn't, null if it wasn't
    tried, because it's above the limit or the search ended early. Never true.
    """
    tried: tuple[TriedValue, ...]
    """The numbers that were tried, in this order."""

    def document(self) -> Document:
        from memreplay.commands.dryrun.largest import largest_document

        return largest_document(self)
