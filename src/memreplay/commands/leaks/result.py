"""The result of `memreplay leaks`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.leaks.records import DeviceLeaks
from memreplay.analysis.selecting.selection import Filters
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import By, MeasureName


class LeaksReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.leaks/1"):
    """The result of `memreplay leaks`."""

    file: str
    measure: MeasureName
    by: By = "stack"
    pool: tuple[int, int] | None = None
    stream: int | None = None
    filters: Filters | None = None
    truncated: bool = False
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    older_than_steps: int
    """Allocations still live after more than this many steps count as old."""
    min_growth_bytes: int
    """Minimum growth per step that counts as a leak."""
    leaking: bool
    """Whether anything leaks; `--fail` checks this. Growth with another explanation (`unless`)
    doesn't count.
    """
    judged: bool
    """Whether any device has enough steps for a verdict."""
    devices: tuple[DeviceLeaks, ...]

    def document(self) -> Document:
        from memreplay.commands.leaks.text import leaks_document

        return leaks_document(self)
