"""The records in a page, which viewer/src/core/page.ts reads."""

from __future__ import annotations

from typing import Literal, NamedTuple

from memreplay.export.page.coding import Coded
from memreplay.render.blocks import NoteBlock, ReportBlock
from memreplay.snapshot.model import MeasureName
from memreplay.snapshot.record import Record


class LifeColumns(Record, frozen=True, kw_only=True):
    """The encoded columns of `Lives`."""

    begin: Coded
    """The event that made the allocation, as a difference from the previous row."""
    life: Coded
    """`end` minus `begin`."""
    lag: Coded
    """`end` minus `let_go`."""
    requested: Coded
    slack: Coded
    """The block's bytes minus the requested bytes."""
    stack: Coded
    """Stack number, from 0. If there are N stacks, N means no stack, and N + 1 means carried over
    without a stack.
    """
    pool: Coded
    """Index in the device's `pools`."""
    stream: Coded
    """Index in the device's `streams`."""
    address: Coded
    """The block's address plus 1, in units of `address_unit` from `address_base`; 0 if unknown."""


class PageSpan(Record, frozen=True):
    """An annotation: a named range of the program."""

    name: str
    begin: int
    """Number of events before the annotation's start."""
    end: int | None
    """Number of events before the annotation's end; None if the file doesn't have the end."""
    start_us: int
    end_us: int | None
    """The annotation's own times, in microseconds since 1970-01-01 UTC."""


class PageGroups(Record, frozen=True, kw_only=True):
    """A device's groups by one key."""

    way: str
    """The key's name, as in `--by`."""
    title: str
    """Column heading."""
    pinned_title: str
    """Column heading in the list of groups that pin free memory."""
    detail: bool
    """Whether a single allocation's details show the group."""
    lines: tuple[tuple[int, ...], ...]
    """The lines that name each group, as indices in `texts`: the group's name and, for stacks, the
    callers, as in `memreplay peak`.
    """
    of_stacks: Coded | None
    """Each stack's group; 0 if no allocation has the stack. Two more entries are for allocations
    without a stack and for carried-over blocks without a stack. None if stacks don't determine
    groups.
    """
    of_lives: Coded | None
    """Each allocation's group, if stacks don't determine it. When grouped by size, `of_stacks` and
    `of_lives` are both None, because the group is the bit length of the allocation's bytes in the
    measure.
    """


class SegmentColumns(Record, frozen=True, kw_only=True):
    """Pieces of segments, one per row. Two pieces that exist at the same time never overlap."""

    begin: Coded
    """The event that reserved the piece, or -1 if carried over; stored as differences from the
    previous row.
    """
    life: Coded
    """Number of events until the piece was released; past the last event if it never was."""
    address: Coded
    """Address in units of `address_unit` from `address_base`, as a difference from the previous
    row.
    """
    size: Coded
    """Size in bytes."""
    segment: Coded
    """Segment number. Adjacent pieces with the same number form one segment, unless their known
    pools differ.
    """
    pool: Coded
    stream: Coded
    kind: Coded
    """Bit 1: mapped piece by piece (expandable). Bit 2: for small requests, judging by the
    segment's size. A segment counts as small if any of its pieces does. An expandable segment also
    counts as small if it has a block for a request of 1 MiB or less, unless a CUDA graph's
    checkpoint made that block.
    """


class PageMark(Record, frozen=True, kw_only=True):
    """A notable moment or a step."""

    kind: Literal["oom", "snapshot", "step"]
    text: str
    bytes: int | None
    """The failed request; for a snapshot event, its number of bytes. None for a step, and for
    numbers that JavaScript can't hold.
    """
    moment: int
    """Number of events up to the marked one, including that event."""
    end: int | None
    """For a step, number of events before its end; otherwise None."""


class PageFailure(Record, frozen=True, kw_only=True):
    """The explanation of a failed request, as in `memreplay oom`; its mark has the size."""

    moment: int
    """Number of events up to the failed request, including it."""
    asked_by: str
    """The file and line that made the request; "" if unknown."""
    cause: str
    """The cause's name."""
    text: str
    """The cause as a sentence."""
    cached_bytes: int
    """Free bytes in the allocator's cache, which this request couldn't use."""
    remedies: tuple[tuple[str, str], ...]
    """Names and descriptions of the remedies; empty if they weren't computed."""


class PageCard(Record, frozen=True):
    """A card's memory."""

    bytes: int
    known: bool
    """Whether `bytes` is the card's size; otherwise the card has at least as much."""
    text: str
    """The formatted size and, if known, the memory used outside PyTorch."""


class PageOutside(Record, frozen=True, kw_only=True):
    """Samples of who used a card's memory, in order of time."""

    total_bytes: int
    """The card's memory."""
    moments: tuple[int, ...]
    """The first moment that has this sample; each moment has the closest one."""
    times_us: tuple[int, ...]
    """When each sample was taken, since the first event."""
    free_bytes: tuple[int, ...]
    outside_bytes: tuple[int, ...]
    """Memory of this process outside PyTorch's allocator. If `other_bytes` is None, it includes
    other processes.
    """
    other_bytes: tuple[int | None, ...]
    """Memory of other processes; None if unknown."""


class PageExtras(NamedTuple):
    """A device's failed requests and card."""

    ooms: tuple[PageFailure, ...] = ()
    """The first failed requests."""
    card: PageCard | None = None


class PagePeak(Record, frozen=True):
    """A measure's peak, as the engine computes it. The page must compute the same value."""

    bytes: int
    moment: int
    """Number of events before the first peak."""


class PageDevice(Record, frozen=True, kw_only=True):
    """One device of a page."""

    device: int
    events: int
    """Number of selected events."""
    first_event: int
    """Number of the first selected event."""
    lives: LifeColumns
    streams: tuple[str | None, ...]
    """Stream numbers by index, because a number may be as large as an address."""
    pools: tuple[tuple[int, int] | None, ...]
    """Pools by index."""
    reserved_start: int
    """Bytes reserved before the first event."""
    reserved_event: Coded
    """The events that changed the reserved bytes, as differences from the previous event."""
    reserved_bytes: Coded
    """Reserved bytes after each of these events, as differences from the previous value."""
    time: Coded | None
    """Running maximum of the times in microseconds since the first event, as differences; None
    without times.
    """
    first_us: int | None
    """Time of the first event, in microseconds since 1970-01-01 UTC."""
    last_us: int | None
    """The last value of `time`."""
    spans: tuple[PageSpan, ...]
    marks: tuple[PageMark, ...]
    groups: tuple[PageGroups, ...]
    """The allocations' groups, by each useful key."""
    address_base: str
    """The lowest address, as text because JavaScript's integers may be too small for it."""
    address_unit: int
    """All addresses are multiples of this: 512 or 1."""
    small_limit: int
    """The largest request, in bytes, that a small segment serves."""
    segments: SegmentColumns | None
    """The segments' pieces; None if they don't add up to the reserved memory."""
    trust: dict[MeasureName, NoteBlock]
    """How far each measure's numbers can be trusted. The note is a warning if the numbers aren't
    exact.
    """
    peaks: dict[MeasureName, PagePeak]
    ooms: tuple[PageFailure, ...]
    """The first failed requests. `marks` has the others."""
    card: PageCard | None
    """The card's memory; None if it's unknown."""
    outside: PageOutside | None
    """Memory outside PyTorch's allocator; None if it wasn't recorded, or without times."""


class PageReport(Record, frozen=True):
    """The output of `memreplay report`."""

    blocks: tuple[ReportBlock, ...]
    verdicts: dict[int, str]
    """One line on each device, by its number."""
    reasons: dict[int, str]
    """Why the numbers of a device aren't exact, by its number; exact devices are left out."""


class PageData(Record, frozen=True, kw_only=True):
    """A snapshot's data for the page, except the bytes of its columns."""

    name: str
    """The snapshot's name on the page: file name or rank."""
    file: str
    options: tuple[str, ...]
    """Command-line options with which other commands select the same part of the file."""
    report: PageReport | None
    """The output of `memreplay report`, or None."""
    notes: tuple[str, ...]
    """Problems with the file, and what the page leaves out."""
    texts: tuple[str, ...]
    """Names of functions, files and groups."""
    folder: str
    """The folder with most of the user's files, which the page leaves out of their paths."""
    files: tuple[tuple[int, int], ...]
    """Each file and its name on the page, as indices in `texts`."""
    code: tuple[tuple[int, ...], ...]
    """The groups' lines that name code: the line as an index in `texts`, the source line, and the
    file, function and operator as indices in `texts`.
    """
    frame_function: Coded
    frame_file: Coded
    frame_line: Coded
    frame_source: Coded
    """Source line: 1 + an index in `texts`; 0 if unknown."""
    frame_allocator: Coded
    """1 for frames of the allocator and the stack recorder, which C++ stacks begin with."""
    stack_frames: Coded
    """Number of frames of each stack."""
    frames: Coded
    """The frames of all stacks in sequence, innermost first."""
    stack_code: Coded
    """For each of these frames, 1 for user or library code, 0 for plumbing."""
    devices: tuple[PageDevice, ...]
    bytes: int
    """Size of the inflated columns."""


class Page(Record, frozen=True, kw_only=True, tag_field="schema", tag="memreplay.page/1"):
    """One snapshot, two to compare, or the ranks of a run."""

    version: str
    """memreplay's version."""
    title: str
    kind: Literal["one", "compare", "ranks"]
    snapshots: tuple[PageData, ...]
    diff: tuple[ReportBlock, ...] | None
    """The output of `memreplay diff` for two; otherwise None."""
