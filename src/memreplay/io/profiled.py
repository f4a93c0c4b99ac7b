"""Read the memory events of a torch.profiler trace (Kineto's JSON) as a snapshot.

For each allocation and free, the trace has the address, size, time and device, and the allocated
and reserved totals afterwards. The trace doesn't have blocks, segments or requested sizes; its
sizes are rounded. The native reader extracts the events from the JSON; this module sorts and checks
them.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import memreplay._core as _core
from memreplay.engine.query._vectors import chosen, constant, counting, joined, vector, zeros
from memreplay.engine.read import _profile
from memreplay.errors import LimitError, SnapshotError

if TYPE_CHECKING:
    from memreplay.engine.query._vectors import Vector
    from memreplay.engine.read._adding import Adding
    from memreplay.io.limits import Limits

    Rows = dict[str, Vector]  # columns by name
    Fill = Callable[[memoryview], int]
    Ahead = Callable[[], tuple[bytearray, int, int, BaseException | None]]

RECORDER = "torch.profiler"  # the name used in the snapshot's notes
DUMP = "or dump a snapshot with torch.cuda.memory._dump_snapshot(path)"
CPU = 0  # c10::DeviceType
ABSENT = _core.ABSENT_ID
_ALLOC, _FREE, _OOM, _MAP, _UNMAP = map(
    _core.ACTIONS.index, ("alloc", "free_completed", "oom", "segment_map", "segment_unmap")
)
# How the profiler names a Python call. Names of built-in functions and modules look different.
_CALL = re.compile(r"(?P<file>.+?)\((?P<line>\d{1,9})\): (?P<function>.+)", re.DOTALL)
_ROUND = 1 << 21
_INSTANT = 1 << 63  # `longest_first` of a span without duration


class _Trace(NamedTuple):
    """One device's memory events in order, and the memory allocated before the first one."""

    rows: Rows
    at: Vector  # positions in the list of all memory events
    before_bytes: int  # bytes allocated before the first event and never freed
    # Number of events after which the trace's own total differs from the sum of its allocations.
    disagreeing: int
    has_totals: bool


def read_profile(
    readinto: Fill,
    limits: Limits,
    progress: Callable[[int], object] | None,
    bounds: tuple[int, int, int, int, int] | None,
    ahead: Ahead | None,
) -> _core.Tables:
    """Read a trace's memory events into tables.

    Raises
    ------
    SnapshotError
        The trace is damaged, or only has memory events for the CPU.
    """
    numbers = limits.numbers()
    profile = _profile.read(readinto, numbers, progress, ahead)
    memory, spans = (
        {name: vector(column) for name, column in rows.items()}
        for rows in (profile.memory(), profile.spans())
    )
    traces = _traces(memory, limits)
    prelude = {
        "device_traces": [],
        "external_annotations": [],
        "memreplay": {"recorder": RECORDER, "profiler": _notes(memory, traces)},
    }

    def then(tables: _core.Tables) -> tuple[int, int]:
        from memreplay.engine.read._adding import Adding

        _Filling(Adding(tables), profile, memory, spans).fill(traces)
        return -1, profile.stream_bytes

    source = io.BytesIO(json.dumps(prelude).encode())
    return _core.read(source.readinto, numbers, None, False, bounds, None, then)


def _traces(memory: Rows, limits: Limits) -> dict[int, _Trace]:
    """Split the events by device. Raises SnapshotError if there are no events or some are
    damaged.
    """
    n = len(memory["flags"])
    if not n:
        raise SnapshotError(
            "not a memory snapshot, but a torch.profiler trace without memory events",
            hint=f"profile with profile_memory=True, {DUMP}",
        )
    broken = (memory["flags"] & _profile.BROKEN).count()
    if broken:
        raise SnapshotError(
            f"{broken:,} of the trace's {n:,} memory events have a missing or impossible"
            " address, size or time",
            hint=f"profile again, {DUMP}",
        )
    at = (memory["device_type"] != CPU).rows()
    if not len(at):
        raise SnapshotError(
            "all memory events in this torch.profiler trace are from the CPU",
            hint=f"profile a program that uses a GPU, {DUMP}",
        )
    kinds = memory["device_type"][at].distinct()
    if len(kinds) > 1:
        raise SnapshotError(
            f"this torch.profiler trace has memory events of {len(kinds)} kinds of device"
            f" (Device Type {', '.join(map(str, kinds))}): only one kind is supported",
            hint=f"profile one kind, {DUMP}",
        )
    devices = memory["device"][at].distinct().tolist()
    if devices[0] < 0 or devices[-1] >= limits.devices:
        wrong = devices[0] if devices[0] < 0 else devices[-1]
        raise LimitError(
            f"a memory event of device {wrong}; devices count from 0 to below {limits.devices}",
            hint="raise it with --limit devices=N if the file is known to be good",
        )
    return {device: _trace(memory, at[memory["device"][at] == device]) for device in devices}


def _trace(memory: Rows, at: Vector) -> _Trace:
    # The file lists the events thread by thread.
    at = at[memory["order"][at].order()]
    rows = {name: column[at] for name, column in memory.items()}
    change = chosen(rows["flags"] & _profile.OOM, 0, rows["size"])
    told = (rows["flags"] & _profile.ALLOCATED).rows()
    if not len(told):
        return _Trace(rows, at, 0, 0, has_totals=False)
    total = change.sums()
    start = rows["allocated"][told[0]] - total[told[0]]
    disagreeing = (start + total[told] != rows["allocated"][told]).count()
    before = start - _freed_of_before(rows["address"], change)
    return _Trace(rows, at, max(before, 0), disagreeing + (before < 0), has_totals=True)


def _freed_of_before(address: Vector, change: Vector) -> int:
    """Return the number of bytes that were allocated before the first event and freed later. These
    are at addresses whose first event is a free.
    """
    there = change.rows()
    addresses, places = address[there].numbered()
    first = zeros(len(addresses), "I")
    first[places[::-1]] = there[::-1]
    sizes = change[first]
    return -sizes[sizes < 0].sum()


def _notes(memory: Rows, traces: dict[int, _Trace]) -> dict[str, object]:
    """Return the information about the trace that goes into the snapshot's notes."""
    found: dict[str, object] = {
        "cpu_events": (memory["device_type"] == CPU).count(),
        "disagreeing": {str(d): one.disagreeing for d, one in traces.items() if one.disagreeing},
        "without_totals": [d for d, one in traces.items() if not one.has_totals],
    }
    reserved = {str(device): one.rows["reserved"].max() for device, one in traces.items()}
    found["reserved_peak_bytes"] = {key: peak for key, peak in reserved.items() if peak > 0}
    return found


class _Filling:
    """Fills the tables with the events, their stacks and the annotations."""

    def __init__(
        self,
        adding: Adding,
        profile: _profile.Profile,
        memory: Rows,
        spans: Rows,
    ) -> None:
        self.adding = adding
        self.profile = profile
        self.memory = memory
        self.spans = spans

    def fill(self, traces: dict[int, _Trace]) -> None:
        """Fill all tables in the order that `Adding` requires."""
        stack_of = self._stacks(joined(one.at for one in traces.values()))
        self._annotations(list(traces))
        for device in range(1 + max(traces)):
            self.adding.trace(device)
            if device in traces:
                self._events(traces[device], stack_of)

    def _events(self, trace: _Trace, stack_of: Vector) -> None:
        rows = trace.rows
        times, bytes_of = rows["us"], abs(rows["size"])
        # First free address after all blocks, used for memory without known addresses.
        end = rows["address"].max() + bytes_of.max()
        free = (end // _ROUND + 1) * _ROUND if end < 2**62 else _ROUND
        if trace.before_bytes:
            self.adding.carried(free, trace.before_bytes, times[0])
            free += (trace.before_bytes // _ROUND + 1) * _ROUND
        failed = (rows["flags"] & _profile.OOM) != 0
        action = chosen(failed, _OOM, chosen(rows["size"] < 0, _FREE, _ALLOC))
        address = chosen(failed, 0, rows["address"])
        # The trace only has the total of reserved memory. Each change of the total becomes a
        # mapping at an address after all blocks. The sum is right, but the addresses are made up.
        reserved = rows["reserved"]
        previous = joined([[0], reserved])[:-1]
        at = (reserved != previous).rows()
        before, after = previous[at], reserved[at]
        grown, lowest = after - before, before.lower(after)
        stacks = stack_of[trace.at]
        n = len(action) + len(at)
        none = constant(ABSENT, n, "I").copy()
        self.adding.events(
            _inserted(action, at, chosen(grown > 0, _MAP, _UNMAP), "B"),
            _inserted(address, at, lowest + free, "Q"),
            _inserted(bytes_of, at, abs(grown), "q"),
            _inserted(times, at, times[at], "q"),
            zeros(n, "Q"),
            _inserted(stacks, at, stacks[at], "I"),
            none,
            none,
            none,
            zeros(n),
            zeros(n, "B"),
        )

    # ---- stacks

    def _stacks(self, at: Vector) -> Vector:
        """Return each memory event's stack id. The stack consists of the operators and Python calls
        around the event.
        """
        spans, memory = self.spans, self.memory
        calls = (spans["kind"] != _profile.ANNOTATION).rows()
        entries = joined([calls, at + len(spans["kind"])], "I")
        # Sort by thread, then by time, then spans before memory events, then by duration.
        order = _sorted(
            *(joined([spans[key][calls], memory[key][at]], "Q") for key in ("pid", "tid", "order")),
            joined([constant(0, len(calls)), constant(1, len(at))]),
            joined([spans["longest_first"][calls], constant(0, len(at))], "Q"),
        )
        stack_of, ends, codes = map(vector, self.profile.nest(entries[order]))
        frames, numbers, kept = self._frames(codes)
        self.adding.frames(*frames)
        before = joined([[0], kept.sums()])
        # Offsets are in bytes of `codes`. Each stack starts where the previous one ends.
        self.adding.stacks(before[ends >> 2].as_format("i"), numbers)
        return stack_of

    def _frames(self, codes: Vector) -> tuple[list[Vector], Vector, Vector]:
        """Return the frames, each code's frame number, and whether each code is a frame.

        Python's built-in functions and module names aren't frames.
        """
        words, place = codes.numbered()
        said: list[tuple[bytes, bytes, int]] = []
        number = [ABSENT] * len(words)
        for i, code in enumerate(words):
            name = self.profile.text(code & ~_profile.PYTHON_FRAME)
            # the form in which PyTorch writes C++ frames
            frame: tuple[bytes, bytes, int] | None = (name, b"??", 0)
            if code & _profile.PYTHON_FRAME:
                frame = _call(name)
            if frame is not None:
                number[i] = len(said)
                said.append(frame)
        function = self._texts([frame[0] for frame in said])
        file = self._texts([frame[1] for frame in said])
        line = vector([frame[2] for frame in said])
        none = zeros(len(said), "I")
        all_numbers = vector(number, "I")[place]
        kept = all_numbers != ABSENT
        return [function, file, line, none, none, none, none], all_numbers[kept], kept

    def _texts(self, texts: list[bytes]) -> Vector:
        ends = list(accumulate(map(len, texts)))
        if ends and ends[-1] >= 2**31:
            raise LimitError("the names in the trace are too long for one table")
        data = b"".join(texts)
        return vector(self.adding.intern(data or b"\0", vector([0, *ends], "i")))

    # ---- annotations

    def _annotations(self, devices: list[int]) -> None:
        rows = (self.spans["kind"] == _profile.ANNOTATION).rows()
        n = len(rows)
        if not n:
            return
        spans = {name: column[rows] for name, column in self.spans.items()}
        # At equal times, ends sort before starts, but not before their own.
        rank = joined([constant(1, n), chosen(spans["longest_first"] < _INSTANT, 0, 2)])
        order = _sorted(joined([spans["order"], spans["end_order"]], "Q"), rank)
        begin, end = self._texts([b"START", b"END"])
        named, place = spans["name"].numbered()
        name = self._texts([self.profile.text(i) for i in named])[place]
        for device in devices:
            self.adding.annotations(
                constant(device, 2 * n, "i").copy(),
                joined([spans["us"], spans["end_us"]])[order],
                joined([constant(begin, n), constant(end, n)], "I")[order],
                joined([name, name], "I")[order],
            )


def _sorted(*keys: Vector) -> Vector:
    """Return the order of rows by the first key, then by the next, and so on."""
    order = counting(len(keys[0]))
    for key in reversed(keys):
        order = order[key[order].order()]
    return order


def _inserted(values: Vector, at: Vector, added: Vector, fmt: str) -> Vector:
    """Return the values with others inserted, each before the value in its row in `at`."""
    found = zeros(len(values) + len(added), fmt)
    rows = counting(len(values))
    found[rows + at.places(rows, right=True)] = values
    found[at + counting(len(at))] = added
    return found


def _call(name: bytes) -> tuple[bytes, bytes, int] | None:
    """Return a Python call's function, file and line; None for other names."""
    found = _CALL.fullmatch(name.decode("utf-8", "surrogateescape"))
    if found is None:
        return None
    function, file = (found[key].encode("utf-8", "surrogateescape") for key in ("function", "file"))
    return function, file, int(found["line"])
