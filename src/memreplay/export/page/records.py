"""What a page knows of snapshots besides their columns; viewer/src/core/page.ts reads it."""

from __future__ import annotations

from typing import Literal

from memreplay.export.page.coding import Coded
from memreplay.render.blocks import NoteBlock, ReportBlock
from memreplay.snapshot.model import MeasureName
from memreplay.snapshot.record import Record


class LifeColumns(Record, frozen=True, kw_only=True):
    """The columns of `Lives`, as they are written."""

    begin: Coded
    """Differences to the one before."""
    life: Coded
    """`end` less `begin`."""
    lag: Coded
    """`end` less `let_go`."""
    requested: Coded
    slack: Coded
    """Bytes of the block less the requested ones."""
    stack: Coded
    """The number of its stack; that of stacks for none, one more for none before the recording."""
    pool: Coded
    """A place in the device's `pools`."""
    stream: Coded
    """A place in the device's `streams`."""
    address: Coded
    """Where its block is, in units of `address_unit`, from `address_base` on; 0 where that is not
    known, else one more than that."""


class PageSpan(Record, frozen=True):
    """An annotation: a range of a program with a name."""

    name: str
    begin: int
    """How many events come before it."""
    end: int | None
    """How many until it ends; None if its end is not in the file."""
    start_us: int
    end_us: int | None
    """Its own times, since 1970-01-01 UTC."""


class PageGroups(Record, frozen=True, kw_only=True):
    """The groups of a device by one way."""

    way: str
    """Its name, as after `--by`."""
    title: str
    """The heading of a column of its groups."""
    pinned_title: str
    """The same of who blocks free memory."""
    detail: bool
    """Whether the details of a single allocation show it."""
    lines: tuple[tuple[int, ...], ...]
    """Of each group the lines that it is called by, as places in `texts`: its name, and for stacks
    the callers below it, as `memreplay peak` shows them."""
    of_stacks: Coded | None
    """Of each stack its group, 0 where no allocation has it; behind the stacks that of allocations
    without one, and that of those without one that were there before the recording. None where
    stacks do not decide it."""
    of_lives: Coded | None
    """Of each allocation its group, where stacks do not decide it. Both are None for sizes, whose
    group is the number of bits of the bytes (0 for 0 bytes), by the measure."""


class SegmentColumns(Record, frozen=True, kw_only=True):
    """Pieces of segments, a row each. An address never stands in two at once."""

    begin: Coded
    """The event that reserved it, -1 for what was there before; differences to the one before."""
    life: Coded
    """How many events later it was given back; behind the last event for what was not."""
    address: Coded
    """In units of `address_unit`, from `address_base` on; differences to the one before."""
    size: Coded
    """Bytes."""
    segment: Coded
    """A number. Pieces of one number that touch are one segment, unless they have two pools that
    are known and differ."""
    pool: Coded
    stream: Coded
    kind: Coded
    """1: it is mapped piece by piece (expandable); 2: it is said to be for small requests, where
    its size tells; a segment is if a piece of it is. An expandable one is, too, where a block in it
    was requested with 1 MiB or less, unless a CUDA graph's checkpoint made it."""


class PageMark(Record, frozen=True, kw_only=True):
    """A moment that means something, or a step."""

    kind: Literal["oom", "snapshot", "step"]
    text: str
    moment: int
    """How many events come before it; of an event that is marked, it is one of them."""
    end: int | None
    """Of a step how many until it ends; None for others."""


class PagePeak(Record, frozen=True):
    """Where a measure is highest, as the engine has it: the page's must be the same."""

    bytes: int
    moment: int
    """How many events come before it: the first such moment."""


class PageDevice(Record, frozen=True, kw_only=True):
    """One device of a page."""

    device: int
    events: int
    """How many were read."""
    first_event: int
    """The number of the first of them."""
    lives: LifeColumns
    streams: tuple[str | None, ...]
    """What the numbers of `stream` stand for: numbers of streams may be as large as addresses."""
    pools: tuple[tuple[int, int] | None, ...]
    """What those of `pool` stand for."""
    reserved_start: int
    """Bytes that were reserved before the first event."""
    reserved_event: Coded
    """The events that changed it, differences."""
    reserved_bytes: Coded
    """What it was after each of them, differences."""
    time: Coded | None
    """Microseconds from the first event on, the latest up to each event, differences; None
    without times."""
    first_us: int | None
    """The time of the first event since 1970-01-01 UTC, in microseconds."""
    last_us: int | None
    """That of the last event, as `time` has it: since the first one."""
    spans: tuple[PageSpan, ...]
    marks: tuple[PageMark, ...]
    groups: tuple[PageGroups, ...]
    """By each way that tells allocations apart."""
    address_base: str
    """The lowest address; in digits, as it may be too large for a number of JavaScript."""
    address_unit: int
    """What addresses are multiples of: 512 or 1."""
    small_limit: int
    """The largest request, in bytes, that comes from a small segment."""
    segments: SegmentColumns | None
    """None where they do not add up to what was reserved."""
    trust: dict[MeasureName, NoteBlock]
    """How far the numbers of each measure can be trusted; a warning if they aren't exact."""
    peaks: dict[MeasureName, PagePeak]


class PageData(Record, frozen=True, kw_only=True):
    """All that a page knows of a snapshot, but for the bytes of its columns."""

    name: str
    """What it is called on the page: its file's name, or its rank."""
    file: str
    options: tuple[str, ...]
    """The options that make other commands read the same of the file, as words."""
    report: tuple[ReportBlock, ...] | None
    """The page of `memreplay report`; None where nobody made one."""
    notes: tuple[str, ...]
    """What is wrong with the file as a whole."""
    texts: tuple[str, ...]
    """Names of functions, files and groups."""
    frame_function: Coded
    frame_file: Coded
    frame_line: Coded
    frame_source: Coded
    """What the line says: a place in `texts`, from 1 on; 0 where that isn't known."""
    stack_frames: Coded
    """How many frames each stack has."""
    frames: Coded
    """The frames of all stacks, innermost first, one stack behind the other."""
    stack_code: Coded
    """Of each of these 1 for code of the user's or of a library, 0 for plumbing."""
    devices: tuple[PageDevice, ...]
    bytes: int
    """How many bytes the columns have, once they are inflated."""


class Page(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.page/1"):
    """One snapshot, two that are compared, or the ranks of a run."""

    version: str
    """Of memreplay."""
    title: str
    kind: Literal["one", "compare", "ranks"]
    snapshots: tuple[PageData, ...]
    diff: tuple[ReportBlock, ...] | None
    """What `memreplay diff` says of two; None for others."""
