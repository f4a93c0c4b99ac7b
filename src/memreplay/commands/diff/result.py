"""The results of `memreplay diff`."""

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
    """The highest moments of both within one phase of the training steps."""

    phase: Phase
    """The phase."""
    base_bytes: int | None
    """The peak within the phase in the base; null if it has no such phase."""
    new_bytes: int | None
    """The peak within the phase in the new snapshot; null if it has no such phase."""
    change_bytes: int | None
    """`new_bytes` - `base_bytes`; null if one of the two has no such phase."""
    base_event: int | None
    """The event of the base's peak within the phase."""
    new_event: int | None
    """The event of the new snapshot's peak within the phase."""
    rows_total: int = 0
    """How many rows there are, before `--top` cut them."""
    rest_change_bytes: int = 0
    """The change in the rows that `--top` cut."""
    rows: tuple[DiffRow, ...] = ()
    """As those of the device. They are only there if the peaks of both are in different phases, of
    which this is one."""


class DeviceDiff(Record, frozen=True, kw_only=True):
    """What changed on one device. The `change_bytes` of the rows and `rest_change_bytes` add up to
    `change_bytes`."""

    device: int
    """The device in the new snapshot."""
    base_device: int
    """The device in the base: the same, unless each of the two has one device alone."""
    measure: MeasureName
    base_bytes: int
    """Live in the base at its moment."""
    new_bytes: int
    """Live in the new snapshot at its moment."""
    change_bytes: int
    """`new_bytes` - `base_bytes`."""
    base: Side
    """The base at its moment."""
    new: Side
    """The new snapshot at its moment."""
    trusted: bool
    """Whether both are [trusted](numbers.md#exact-estimated-trusted)."""
    rows_total: int
    """How many rows there are, before `--top` cut them."""
    rest_change_bytes: int
    """The change in the rows that `--top` cut."""
    statuses: dict[Status, int]
    """How many groups of each status there are, before `--top` cut them, and unchanged ones too."""
    categories: tuple[CategoryChange, ...] = ()
    """The categories that changed, the largest change first; none if the base is a baseline."""
    phases: tuple[PhaseDiff, ...] = ()
    """The peaks of both within each phase of the steps, if the peaks are compared."""
    rows: tuple[DiffRow, ...]
    """The largest change first, grown or shrunk, as many as `--top` says; unchanged ones with
    `--all` only."""


class DiffReport(Answer, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.diff/1"):
    """What `memreplay diff` found: a device each that both snapshots have."""

    text_only = ("ranges", "all_frames", "mixed", "fewer")

    base_file: str
    """The first input, as it was named."""
    new_file: str
    """The second input, as it was named."""
    measure: MeasureName
    by: By
    moment: When
    """What is compared: the peak of each, unless `--at` says otherwise."""
    exact: bool
    """Whether nothing but equal stacks was matched (`--exact`)."""
    filters: Filters | None = None
    source: CategoriesSource | None = None
    """By category, phase or module: whether memreplay's recorder noted the groups of both, or they
    are guessed in both."""
    truncated: bool = False
    """Whether either is cut off, and this is of its whole part (`--salvage`)."""
    unknown_devices: tuple[int, ...] | UnsetType = UNSET
    ranges_differ: bool = False
    """Whether the two are of other events (`--from`, `--to`); false if a baseline does not say."""
    only_base: tuple[int, ...] = ()
    """Devices of the base alone; they are not compared."""
    only_new: tuple[int, ...] = ()
    """Devices of the new snapshot alone; they are not compared."""
    devices: tuple[DeviceDiff, ...]
    """One for each device that both have."""
    ranges: tuple[EventRange, EventRange] | None = None
    """Which events each is of, where these are others."""
    all_frames: bool = False
    """Whether whole stacks are shown."""
    frames: FramesKept = "all"
    """Which frames of the stacks count: those that both files have. With `python` stacks are
    compared without C++ frames, with `none` there are no stacks to compare."""
    fewer: str = ""
    """The file that has fewer frames than the other."""
    mixed: bool = False
    """Whether the groups of one of the two were recorded, and are guessed all the same."""

    def document(self) -> Document:
        from memreplay.commands.diff.text import diff_document

        return diff_document(self)
