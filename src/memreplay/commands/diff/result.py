"""The result of `memreplay diff`."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from memreplay.analysis.code.native import FramesKept
from memreplay.analysis.comparing.records import CategoryChange, DiffRow, Phase, Side, Status
from memreplay.analysis.groups.kinds import CategoriesSource
from memreplay.analysis.selecting.selection import Filters
from memreplay.render.document import Answer, Document
from memreplay.snapshot.model import By, EventRange, MeasureName, When
from memreplay.snapshot.record import Record


class PhaseDiff(Record, frozen=True, kw_only=True):
    """Both sides' peaks within one phase of the training steps."""

    phase: Phase
    """The phase."""
    base_bytes: int | None
    """The base's peak in the phase; null if the base lacks the phase."""
    new_bytes: int | None
    """The new snapshot's peak in the phase; null if the new snapshot lacks the phase."""
    change_bytes: int | None
    """`new_bytes` - `base_bytes`; null if either lacks the phase."""
    base_event: int | None
    """First event after which the base is at its peak in the phase."""
    new_event: int | None
    """First event after which the new snapshot is at its peak in the phase."""
    rows_total: int = 0
    """Number of rows before `--top`."""
    rest_change_bytes: int = 0
    """Change in the rows that `--top` omitted."""
    rows: tuple[DiffRow, ...] = ()
    """Changed groups in the phase, in the same form as the device's `rows`. Only present if the
    overall peaks are in different phases and this phase is one of them.
    """


class DeviceDiff(Record, frozen=True, kw_only=True):
    """The change on one device. The rows' `change_bytes` and `rest_change_bytes` add up to
    `change_bytes`.
    """

    device: int
    """Device in the new snapshot."""
    base_device: int
    """Device in the base: the same device, unless each file has only one."""
    measure: MeasureName
    base_bytes: int
    """Live bytes in the base at the compared moment."""
    new_bytes: int
    """Live bytes in the new snapshot at the compared moment."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""
    base: Side
    """The base at the compared moment."""
    new: Side
    """The new snapshot at the compared moment."""
    trusted: bool
    """Whether both are [trusted](numbers.md#exact-estimated-trusted)."""
    rows_total: int
    """Number of rows before `--top`."""
    rest_change_bytes: int
    """Change in the rows that `--top` omitted."""
    statuses: dict[Status, int]
    """Number of groups by status, including unchanged ones, before applying `--top`."""
    categories: tuple[CategoryChange, ...] = ()
    """Changed categories, largest change first; empty if the base is a baseline."""
    phases: tuple[PhaseDiff, ...] = ()
    """Both sides' peaks in each phase of the steps, if peaks are compared."""
    rows: tuple[DiffRow, ...]
    """The `--top` rows with the largest changes, in order; with `--unchanged` also the others."""


class DiffReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.diff/1"):
    """The result of `memreplay diff`: one entry per common device."""

    text_only = ("ranges", "all_frames", "mixed", "fewer")

    base_file: str
    """The first input, as given."""
    new_file: str
    """The second input, as given."""
    measure: MeasureName
    by: By
    moment: When
    """Compared moment: each file's peak, unless `--at` is given."""
    exact: bool
    """Whether only identical stacks match (`--exact`)."""
    filters: Filters | None = None
    groups_source: CategoriesSource | None = None
    """For groups by category, phase or module: whether both sides' groups are recorded or guessed.
    """
    truncated: bool = False
    """Whether either file is truncated, so that only its intact part was read (`--salvage`)."""
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    ranges_differ: bool = False
    """Whether the two files' selected events differ (`--from`, `--to`); false if a baseline doesn't
    have its range.
    """
    only_base: tuple[int, ...] = ()
    """Devices that only the base has, which aren't compared."""
    only_new: tuple[int, ...] = ()
    """Devices that only the new snapshot has, which aren't compared."""
    devices: tuple[DeviceDiff, ...]
    """One entry per common device."""
    ranges: tuple[EventRange, EventRange] | None = None
    """Both event ranges, if they differ."""
    all_frames: bool = False
    """Whether full stacks are shown."""
    stack_frames: FramesKept = "all"
    """The kinds of frames that are compared because both files have them. With `python`, stacks are
    compared without C++ frames; with `none`, there are no stacks to compare.
    """
    fewer: str = ""
    """The file that has fewer kinds of frames than the other."""
    mixed: bool = False
    """Whether one side's recorded groups are ignored because the other side has none."""

    def document(self) -> Document:
        from memreplay.commands.diff.text import diff_document

        return diff_document(self)
