"""What is asked of a snapshot, whatever the question: one record, passed whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from msgspec.structs import replace

from memreplay.errors import UsageError
from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.snapshot.model import By, Filters, MeasureName


class Selection(Record, frozen=True):
    """Which bytes, of what, in which groups; a question takes from it what concerns it.

    Which events were read is the snapshot's own: `memreplay.open` has a range.
    """

    measure: MeasureName = "requested"
    """Which [bytes](numbers.md#the-measures)."""
    by: By | None = None
    """How to group; None for the way that suits the question and the measure."""
    top: int = 20
    """How many groups, the largest; 0 for all. What is cut is added up."""
    device: int | None = None
    """Of this device alone; None for all that were read."""
    pool: tuple[int, int] | None = None
    """Of this memory pool alone."""
    stream: int | None = None
    """Of this stream alone."""
    filters: Filters | None = None
    """Of the allocations that pass alone."""
    rules: tuple[Rule, ...] | None = None
    """The rules of categories; None for the default ones."""
    fold: bool = False
    """Whether stacks that differ in plumbing alone are one group."""
    strict: bool = False
    """Whether a verdict holds everything against a device that a summary does."""


class Choices(TypedDict, total=False):
    """The fields of a Selection, as arguments by their names."""

    measure: MeasureName
    by: By | None
    top: int
    device: int | None
    pool: tuple[int, int] | None
    stream: int | None
    filters: Filters | None
    rules: tuple[Rule, ...] | None
    fold: bool
    strict: bool


def selected(selection: Selection | None, choices: Choices) -> Selection:
    """The selection, or the one of all defaults, with other choices in it.

    Raises TypeError for a choice that there is not, UsageError for less than no groups.
    """
    found = replace(selection or Selection(), **choices)
    if found.top < 0:
        raise UsageError(f"top counts from 0, for all of them; there is no {found.top}")
    return found
