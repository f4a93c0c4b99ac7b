"""Write tracks as a Perfetto trace: counters, slices, marks, and a live set as a heap profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memreplay.export.viewers import digits
from memreplay.export.viewers.protobuf import data, number, text, varint
from memreplay.export.viewers.stack_names import device_name, frame_name, measure_name, process_name

if TYPE_CHECKING:
    from memreplay.export.viewers.records import (
        DeviceStacks,
        DeviceTracks,
        Slice,
        StacksReport,
        TraceReport,
        Track,
    )

# Field numbers from perfetto_trace.proto, by message.
_PACKET = 1
_CLOCKS, _TIMESTAMP, _SEQUENCE, _EVENT = 6, 8, 10, 11
_INTERNED, _FLAGS, _PROFILE, _DESCRIPTOR = 12, 13, 37, 60
_CLOCK, _PRIMARY_CLOCK, _CLOCK_ID, _CLOCK_TIME = 1, 2, 1, 2
_UUID, _NAME, _PROCESS, _PARENT, _COUNTER, _ORDERING, _RANK = 1, 2, 3, 5, 8, 11, 12
_PID, _PROCESS_NAME = 1, 6
_UNIT, _SHARED_AXIS = 3, 7
_NOTE, _TYPE, _TRACK, _EVENT_NAME, _VALUE = 4, 9, 11, 23, 30
_NOTE_NAME, _NOTE_INT, _NOTE_TEXT = 10, 4, 6
_FUNCTIONS, _FRAMES, _STACKS, _BUILD_IDS, _PATHS, _MAPPINGS = 5, 6, 7, 16, 17, 19
_IID, _STRING = 1, 2
_FRAME_FUNCTION, _FRAME_MAPPING, _FRAME_PC = 2, 3, 4
_MAPPING_BUILD, _MAPPING_START, _MAPPING_END, _MAPPING_PATH = 2, 4, 5, 7
_DUMPS, _INDEX = 5, 7
_DUMP_PID, _SAMPLES, _DUMP_TIME, _HEAP_NAME, _INTERVAL, _ORIGINAL_INTERVAL = 1, 2, 9, 11, 12, 13
_SAMPLE_STACK, _ALLOCATED, _FREED, _ALLOCS, _FREES = 1, 2, 3, 5, 6

_SLICE_BEGIN, _SLICE_END, _INSTANT, _COUNTER_VALUE = 1, 2, 3, 4
_BYTES_UNIT = 3
_EXPLICIT = 3  # sort children by rank; Perfetto always sorts a process's tracks by name
_CLEARED, _NEEDED = 1, 2  # flags for incremental state
_CLOCK_IDS = range(1, 7)  # Perfetto's built-in clocks; a trace uses only one of them
_BOOTTIME = 6
_TRACKS_SEQUENCE, _HEAP_SEQUENCE = 1, 2
_MAPPED = 1 << 40
_ROWS = 1 << 16  # counter values of one width

# Capitalized so that they sort above the measures.
ANNOTATIONS, MARKS = "Annotations", "Marks"


def render_perfetto(report: TraceReport) -> Iterator[bytes]:
    """Yield the trace in chunks. Each device is a process with id device + 1."""
    origin_ns = _origin_ns(report)
    clocks = b"".join(
        data(_CLOCK, number(_CLOCK_ID, clock) + number(_CLOCK_TIME, origin_ns))
        for clock in _CLOCK_IDS
    )
    first = data(_CLOCKS, clocks + number(_PRIMARY_CLOCK, _BOOTTIME))
    yield _packet(first + number(_TIMESTAMP, origin_ns), _TRACKS_SEQUENCE, _CLEARED)
    for device in report.devices:
        yield from _Device(device, origin_ns, report).packets()
    if report.stacks is not None:
        yield _frames(report.stacks)
        at = 0
        for device in report.devices:
            if device.stacks is not None:
                yield _heap(report.stacks, device.stacks, origin_ns + device.stacks_ns, at)
                at += 1


def _origin_ns(report: TraceReport) -> int:
    """Return the origin of all times; 0 if there are no times or if the origin doesn't fit into 64
    bits.
    """
    origin_ns = (report.origin_us or 0) * 1000
    return origin_ns if 0 <= origin_ns < 2**62 else 0


def _packet(content: bytes, sequence: int, flags: int = _NEEDED) -> bytes:
    return data(_PACKET, content + number(_SEQUENCE, sequence) + number(_FLAGS, flags))


class _Device:
    """Builds the packets of one device."""

    def __init__(self, device: DeviceTracks, origin_ns: int, report: TraceReport) -> None:
        self.device = device
        self.origin_ns = origin_ns
        self.report = report
        self.uuid = (device.device + 1) << 24
        self.used = 0

    def packets(self) -> Iterator[bytes]:
        """Yield the device's tracks and their contents."""
        process = number(_PID, self.device.device + 1)
        name = process_name(self.device.device)
        yield self._described(self.uuid, data(_PROCESS, process + text(_PROCESS_NAME, name)))
        groups: dict[str, int] = {}
        for track in self.device.tracks:
            uuid, parent = self._next(), self.uuid
            if track.pool is not None:
                if track.measure not in groups:
                    group = groups[track.measure] = self._next()
                    yield self._track(group, f"{track.measure} by pool", self.uuid)
                parent = groups[track.measure]
            yield self._track(uuid, _track_name(track), parent, counter=True)
            yield from self._counters(track, uuid)
        for lane in self.device.lanes:
            uuid = self._next()
            yield self._track(uuid, ANNOTATIONS, self.uuid)
            yield from self._slices(lane, uuid)
        if self.device.marks:
            uuid = self._next()
            yield self._track(uuid, MARKS, self.uuid)
            for mark in self.device.marks:
                content = text(_EVENT_NAME, mark.name) + _note("event", mark.event_index)
                if mark.bytes is not None:
                    content += _note("bytes", mark.bytes)
                yield self._event(mark.at_ns, _INSTANT, uuid, content)

    def _slices(self, lane: tuple[Slice, ...], uuid: int) -> Iterator[bytes]:
        """Yield beginnings and ends, ordered by time. At equal times, ends come first."""
        ends: list[int] = []
        for one in lane:
            while ends and ends[-1] <= one.begin_ns:
                yield self._event(ends.pop(), _SLICE_END, uuid, b"")
            note = _note("end", "not in the file") if one.open_end else b""
            content = text(_EVENT_NAME, one.name) + note
            yield self._event(one.begin_ns, _SLICE_BEGIN, uuid, content)
            ends.append(one.end_ns)
        while ends:
            yield self._event(ends.pop(), _SLICE_END, uuid, b"")

    def _next(self) -> int:
        self.used += 1
        return self.uuid + self.used

    def _described(self, uuid: int, content: bytes) -> bytes:
        return _packet(data(_DESCRIPTOR, number(_UUID, uuid) + content), _TRACKS_SEQUENCE)

    def _track(self, uuid: int, name: str, parent: int, *, counter: bool = False) -> bytes:
        content = text(_NAME, name) + number(_PARENT, parent) + number(_RANK, self.used)
        if counter:
            axis = device_name(self.device.device)
            content += data(_COUNTER, number(_UNIT, _BYTES_UNIT) + text(_SHARED_AXIS, axis))
        else:
            content += number(_ORDERING, _EXPLICIT)
        return self._described(uuid, content)

    def _event(self, at_ns: int, kind: int, uuid: int, content: bytes) -> bytes:
        event = number(_TYPE, kind) + number(_TRACK, uuid) + content
        return _packet(
            number(_TIMESTAMP, self.origin_ns + at_ns) + data(_EVENT, event), _TRACKS_SEQUENCE
        )

    def _counters(self, track: Track, uuid: int) -> Iterator[bytes]:
        """Yield all values, one packet each, grouped by width so that packet lengths match."""
        tail = number(_SEQUENCE, _TRACKS_SEQUENCE) + number(_FLAGS, _NEEDED)
        head = number(_TYPE, _COUNTER_VALUE) + number(_TRACK, uuid) + varint(_VALUE << 3)
        for first in range(0, len(track.bytes), _ROWS):
            rows = slice(first, first + _ROWS)
            times = digits.varints(track.at_ns[rows] + self.origin_ns)
            values = digits.varints(track.bytes[rows])
            event = varint(_EVENT << 3 | 2) + varint(len(head) + len(values)) + head
            size = 1 + len(times) + len(event) + len(values) + len(tail)
            start = varint(_PACKET << 3 | 2) + varint(size) + varint(_TIMESTAMP << 3)
            yield bytes(digits.packed(len(times[0]), (start, times, event, values, tail)))


def _track_name(track: Track) -> str:
    name = measure_name(track.measure, track.pool)
    return name if track.exactness == "exact" else f"{name} (estimated)"


def _note(name: str, value: int | str) -> bytes:
    content = number(_NOTE_INT, value) if isinstance(value, int) else text(_NOTE_TEXT, value)
    return data(_NOTE, text(_NOTE_NAME, name) + content)


def _interned(field: int, iid: int, string: str) -> bytes:
    return data(field, number(_IID, iid) + text(_STRING, string))


def _frames(report: StacksReport) -> bytes:
    """Intern the names, frames and stacks of all live sets. Ids start at 1."""
    mapping = (
        number(_IID, 1)
        + number(_MAPPING_BUILD, 1)
        + number(_MAPPING_START, 0)
        + number(_MAPPING_END, _MAPPED)
        + number(_MAPPING_PATH, 1)
    )
    parts = [
        _interned(_BUILD_IDS, 1, "memreplay"),
        _interned(_PATHS, 1, "python"),
        data(_MAPPINGS, mapping),
    ]
    for i, frame in enumerate(report.frames, 1):
        parts.append(_interned(_FUNCTIONS, i, frame_name(frame)))
        own = number(_IID, i) + number(_FRAME_FUNCTION, i) + number(_FRAME_MAPPING, 1)
        parts.append(data(_FRAMES, own + number(_FRAME_PC, i)))
    for i, path in _numbered(report):
        # Outermost frame first.
        ids = b"".join(number(_STRING, frame + 1) for frame in path)
        parts.append(data(_STACKS, number(_IID, i) + ids))
    return _packet(data(_INTERNED, b"".join(parts)), _HEAP_SEQUENCE, _CLEARED)


def _numbered(report: StacksReport) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the paths of all devices' stacks, in order."""
    paths = (one.path for device in report.devices for one in device.stacks)
    return enumerate(paths, 1)


def _heap(report: StacksReport, stacks: DeviceStacks, at_ns: int, index: int) -> bytes:
    """Write a device's live set as a heapprofd dump without frees."""
    before = sum(len(device.stacks) for device in report.devices[: report.devices.index(stacks)])
    samples = b"".join(
        data(
            _SAMPLES,
            number(_SAMPLE_STACK, i)
            + number(_ALLOCATED, one.bytes)
            + number(_FREED, 0)
            + number(_ALLOCS, one.count)
            + number(_FREES, 0),
        )
        for i, one in enumerate(stacks.stacks, before + 1)
    )
    dump = (
        number(_DUMP_PID, stacks.device + 1)
        + samples
        + number(_DUMP_TIME, at_ns)
        + text(_HEAP_NAME, f"{device_name(stacks.device)}: {report.measure}")
        + number(_INTERVAL, 1)
        + number(_ORIGINAL_INTERVAL, 1)
    )
    profile = data(_DUMPS, dump) + number(_INDEX, index)
    return _packet(number(_TIMESTAMP, at_ns) + data(_PROFILE, profile), _HEAP_SEQUENCE)
