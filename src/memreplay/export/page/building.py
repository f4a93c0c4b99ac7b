"""Build a page's records and columns from a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import memreplay._core as _core
from memreplay.analysis.annotations.spans import spans
from memreplay.analysis.categories.rules import DEFAULT_RULES
from memreplay.analysis.code.plumbing import ALLOCATOR, LIBRARY, USER
from memreplay.analysis.groups.dimensions import Dimensions
from memreplay.analysis.groups.ways.base import Known
from memreplay.analysis.trust.trust import verdict
from memreplay.engine.query._vectors import constant, joined, vector, zeros
from memreplay.export.page.addresses import addresses_of
from memreplay.export.page.coding import Columns, check_exact
from memreplay.export.page.files import file_names
from memreplay.export.page.groups import Grouping
from memreplay.export.page.lives import lives
from memreplay.export.page.marks import Marks, marks
from memreplay.export.page.outside import outside_of
from memreplay.export.page.records import (
    LifeColumns,
    PageData,
    PageDevice,
    PageExtras,
    PagePeak,
    PageReport,
    PageSpan,
    SegmentColumns,
)
from memreplay.export.page.segments import pieces, pools_of
from memreplay.export.page.texts import Texts
from memreplay.render.blocks import NoteBlock
from memreplay.render.reasons import reason_notes, unknown_text
from memreplay.render.trust import trust_text
from memreplay.snapshot.model import MEASURES
from memreplay.texts import clean

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.engine.query._vectors import Vector
    from memreplay.export.page.addresses import Addresses
    from memreplay.export.page.coding import Coded
    from memreplay.export.page.segments import Pieces
    from memreplay.snapshot.model import MeasureName
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot


_NO_EXTRAS: Mapping[int, PageExtras] = MappingProxyType({})
# Each frame's function, file and line.
_FRAME_FIELDS = ("name", "file", "line")


def page_data(
    snap: Snapshot,
    *,
    name: str | None = None,
    rules: tuple[Rule, ...] | None = None,
    report: PageReport | None = None,
    options: tuple[str, ...] = (),
    extras: Mapping[int, PageExtras] = _NO_EXTRAS,
) -> tuple[PageData, bytes]:
    """Return the records, and the columns as a zlib stream.

    `name`: the name on the page, by default the file's. `rules`: category rules, by default the
    built-in ones. `report`: the output of `memreplay report`. `options`: command-line options that
    make other commands select the same part. `extras`: failed requests and cards, by device.
    """
    columns, texts = Columns(sum(snap.events_by_device.values())), Texts()
    dimensions = Dimensions(Known(snap, DEFAULT_RULES if rules is None else rules, fold=True))
    function, file, line = (vector(snap.native.rows("frame", one)) for one in _FRAME_FIELDS)
    used, places = joined([function, file]).numbered()
    places = vector([texts.place(snap.native.string(one)) for one in used])[places]
    offsets, frames = _column(snap, "stack_offsets"), _column(snap, "stack_frames")
    is_code = vector(dimensions.known.file_rank)[file] <= LIBRARY
    function_ranks = vector(dimensions.known.function_rank)
    coded = {
        "frame_function": columns.add(places[: len(function)]),
        "frame_file": columns.add(places[len(function) :]),
        "frame_line": columns.add(line),
        "frame_source": columns.add(_sources(snap, file, texts)),
        # String 0 is empty, as is frame 0.
        "frame_allocator": columns.add((function_ranks[function] == ALLOCATOR) * (function != 0)),
        "stack_frames": columns.add((offsets[1:] - offsets[:-1]) >> 2),
        "frames": columns.add(frames, differences=True),
        "stack_code": columns.add(is_code[frames]),
    }
    marked = {device: marks(snap, snap.replay(device)) for device in snap.devices}
    making = _Making(dimensions, columns, texts)
    devices = tuple(
        _device(snap, snap.replay(device), making, found, extras.get(device, PageExtras()))
        for device, found in marked.items()
    )
    ranks = dimensions.known.file_rank
    files = {i: snap.native.string(i) for i in file.distinct()}
    names = file_names(
        files.values(), (one for i, one in files.items() if ranks[i] == USER and one), texts
    )
    return (
        PageData(
            name=clean(snap.file.rpartition("/")[2] if name is None else name),
            file=clean(snap.file),
            options=tuple(map(clean, options)),
            report=report,
            notes=(
                *_notes(snap, devices),
                *(note for one in marked.values() for note in one.notes),
            ),
            folder=names.folder,
            files=names.names,
            code=texts.code(),
            texts=texts.all(),
            devices=devices,
            bytes=columns.bytes,
            **coded,
        ),
        columns.packed(),
    )


def _column(snap: Snapshot, name: str) -> Vector:
    found = snap.native.column(name)
    assert not isinstance(found, int)  # only columns of events can be constant
    return vector(found)


class _Making(NamedTuple):
    """Parts that a page's devices share."""

    dimensions: Dimensions
    columns: Columns
    texts: Texts


def _device(
    snap: Snapshot,
    replay: Replay,
    making: _Making,
    marked: Marks,
    extras: PageExtras,
) -> PageDevice:
    dimensions, columns, texts = making
    those = lives(snap, replay)
    changes = replay.segment_changes
    clock = _clock(replay, columns)
    pool, stream = columns.add(those.pool), columns.add(those.stream)
    parts = pieces(replay)
    addresses = addresses_of(those.address, *(() if parts is None else (parts.address,)))
    peaks = {name: _peak(replay, name) for name in MEASURES}
    check_exact(*(one.bytes for one in peaks.values()))
    return PageDevice(
        device=replay.device,
        events=replay.events,
        first_event=replay.first_event,
        lives=LifeColumns(
            begin=columns.add(those.begin, differences=True),
            life=columns.add(those.end, less=those.begin),
            lag=columns.add(those.end, less=those.let_go),
            requested=columns.add(those.requested),
            slack=columns.add(those.block, less=those.requested),
            stack=columns.add(those.stack),
            pool=pool,
            stream=stream,
            address=columns.add_recurring(addresses.numbers(those.address)),
        ),
        streams=_streams(replay),
        pools=pools_of(replay),
        reserved_start=replay.measure("reserved").start_bytes,
        reserved_event=columns.add(changes.event - replay.first_event, differences=True),
        reserved_bytes=columns.add(changes.reserved, differences=True),
        time=clock and clock.since,
        first_us=clock and clock.first,
        last_us=clock and clock.last,
        spans=_spans(snap, replay),
        marks=marked.found,
        groups=Grouping(replay, those, dimensions, columns, texts).all(pool, stream),
        address_base=str(addresses.base),
        address_unit=addresses.unit,
        small_limit=replay.backend.small_limit,
        segments=None if parts is None else _segments(parts, addresses, columns),
        trust={name: _trust(snap, replay, name) for name in MEASURES},
        peaks=peaks,
        ooms=extras.ooms,
        card=extras.card,
        outside=outside_of(snap, replay),
    )


def _sources(snap: Snapshot, file: Vector, texts: Texts) -> Vector:
    """Return 1 + the index of each frame's source text; 0 if unknown. `file`: the frames' files."""
    found = zeros(len(file))
    known = snap.source_lines
    files = [i for i in file.distinct() if snap.native.string(i) in known]
    for i in file.is_in(files).rows():
        if source := snap.frame(i).source:
            found[i] = 1 + texts.place(source)
    return found


def _streams(replay: Replay) -> tuple[str | None, ...]:
    keys = replay.classes("stream").keys()
    return tuple(None if one is None else str(one) for one in keys)


def _spans(snap: Snapshot, replay: Replay) -> tuple[PageSpan, ...]:
    """Return a device's annotations."""
    found = spans(snap, replay)
    check_exact(*(one.start_us for one in found), *(one.end_us or 0 for one in found))
    shift = 1 - replay.first_event
    return tuple(
        PageSpan(
            name=clean(one.name),
            begin=one.start_event + shift,
            end=None if one.end_event is None else one.end_event + shift,
            start_us=one.start_us,
            end_us=one.end_us,
        )
        for one in found
    )


def _segments(parts: Pieces, addresses: Addresses, columns: Columns) -> SegmentColumns | None:
    """Encode the segments' pieces; None if an address is too large for JavaScript."""
    numbers = addresses.numbers(parts.address)
    if not numbers.all():
        return None
    return SegmentColumns(
        begin=columns.add(parts.begin, differences=True),
        life=columns.add(parts.end, less=parts.begin),
        address=columns.add(numbers - 1, differences=True),
        size=columns.add(parts.size),
        segment=columns.add(parts.segment, differences=True),
        pool=columns.add(parts.pool),
        stream=columns.add(parts.stream),
        kind=columns.add(parts.kind),
    )


class _Clock(NamedTuple):
    """The times of one device's events."""

    since: Coded
    """Running maximum of the times, in microseconds since the first event."""
    first: int
    """The first time, since 1970-01-01 UTC."""
    last: int
    """The last value of `since`."""


def _clock(replay: Replay, columns: Columns) -> _Clock | None:
    """Return the times; None if there are none."""
    if not replay.has_times:
        return None
    clock = replay.clock_column
    if clock is None:  # all events have the same time
        times = constant(replay.time_us(replay.start) or 0, replay.events)
    else:
        times = vector(clock)
    # Events before the first event that has a time get that event's time.
    known = times.places([_core.ABSENT_TIME], right=True)[0]
    first = times[known]
    check_exact(first)
    if known:
        times = times.copy()
        times[:known] = first
    since = columns.add(times, less=constant(first, len(times)), differences=True)
    return _Clock(since, first, times[-1] - first)


def _peak(replay: Replay, measure: MeasureName) -> PagePeak:
    """Return a measure's peak."""
    peak = replay.measure(measure).peak
    return PagePeak(peak.bytes, peak.event_index - replay.first_event + 1)


def _notes(snap: Snapshot, devices: tuple[PageDevice, ...]) -> tuple[str, ...]:
    """Return notes about problems with the file, and about what its page leaves out."""
    notes = []
    if snap.truncation is not None:
        notes += [one.text for one in reason_notes(("truncated",), trusted=False)]
    if snap.unknown_devices:
        notes.append(unknown_text(snap.unknown_devices))
    if not devices:
        notes.append("nothing to show: the file has neither events nor segments")
    for device in devices:
        if device.segments is None:
            notes.append(
                f"segments of device {device.device} aren't shown: its segment events don't"
                " add up, or an address is too large for a browser"
            )
    return tuple(notes)


def _trust(snap: Snapshot, replay: Replay, measure: MeasureName) -> NoteBlock:
    """Describe how far a measure's numbers can be trusted, with the same words as in reports."""
    found = verdict(snap, replay.measure(measure))
    words = trust_text(found, snap.trace_events(replay.device))
    return NoteBlock(words, not (found.exact and found.trusted))
