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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import memreplay._core as _core
from memreplay.engine.read import _profile
from memreplay.errors import LimitError, SnapshotError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memreplay.engine.read._adding import Adding
    from memreplay.io.limits import Limits

    Fill = Callable[[memoryview], int]
    Ahead = Callable[[], tuple[bytearray, int, int, BaseException | None]]

RECORDER = "torch.profiler"  # the name used in the snapshot's notes
DUMP = "or dump a snapshot with torch.cuda.memory._dump_snapshot(path)"
CPU = 0  # c10::DeviceType
ABSENT = _core.ABSENT_ID
_ALLOC, _FREE, _OOM, _MAP, _UNMAP = map(
    _core.ACTIONS.index, ("alloc", "free_completed", "oom", "segment_map", "segment_unmap")
)
# These types must match the row structs in engine/read/profile.pxd.
MEMORY = np.dtype(
    [
        *(("time", "f8"), ("pid", "u8"), ("tid", "u8"), ("address", "u8"), ("size", "i8")),
        *(("allocated", "i8"), ("reserved", "i8"), ("device_type", "i4"), ("device", "i4")),
        *(("flags", "u4"), ("unused", "u4")),
    ]
)
SPAN = np.dtype(
    [
        *(("begin", "f8"), ("duration", "f8"), ("pid", "u8"), ("tid", "u8")),
        *(("name", "u4"), ("kind", "u4")),
    ]
)
# How the profiler names a Python call. Names of built-in functions and modules look different.
_CALL = re.compile(r"(?P<file>.+?)\((?P<line>\d{1,9})\): (?P<function>.+)", re.DOTALL)
_ROUND = 1 << 21


class _Trace(NamedTuple):
    """One device's memory events in order, and the memory allocated before the first one."""

    rows: NDArray[np.void]
    at: NDArray[np.int64]  # positions in the list of all memory events
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
    memory: NDArray[np.void] = np.asarray(profile.memory()).view(MEMORY)
    spans: NDArray[np.void] = np.asarray(profile.spans()).view(SPAN)
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


def _traces(memory: NDArray[np.void], limits: Limits) -> dict[int, _Trace]:
    """Split the events by device. Raises SnapshotError if there are no events or some are
    damaged.
    """
    if not len(memory):
        raise SnapshotError(
            "not a memory snapshot, but a torch.profiler trace without memory events",
            hint=f"profile with profile_memory=True, {DUMP}",
        )
    broken = int(np.count_nonzero(memory["flags"] & _profile.BROKEN))
    if broken:
        raise SnapshotError(
            f"{broken:,} of the trace's {len(memory):,} memory events have a missing or impossible"
            " address, size or time",
            hint=f"profile again, {DUMP}",
        )
    at = np.flatnonzero(memory["device_type"] != CPU)
    if not len(at):
        raise SnapshotError(
            "all memory events in this torch.profiler trace are from the CPU",
            hint=f"profile a program that uses a GPU, {DUMP}",
        )
    kinds = np.unique(memory["device_type"][at])
    if len(kinds) > 1:
        raise SnapshotError(
            f"this torch.profiler trace has memory events of {len(kinds)} kinds of device"
            f" (Device Type {', '.join(map(str, kinds.tolist()))}): only one kind is supported",
            hint=f"profile one kind, {DUMP}",
        )
    devices = np.unique(memory["device"][at]).tolist()
    if devices[0] < 0 or devices[-1] >= limits.devices:
        wrong = devices[0] if devices[0] < 0 else devices[-1]
        raise LimitError(
            f"a memory event of device {wrong}; devices count from 0 to below {limits.devices}",
            hint="raise it with --limit devices=N if the file is known to be good",
        )
    return {device: _trace(memory, at[memory["device"][at] == device]) for device in devices}


def _trace(memory: NDArray[np.void], at: NDArray[np.int64]) -> _Trace:
    # The file lists the events thread by thread.
    at = at[np.argsort(memory["time"][at], kind="stable")]
    rows = memory[at]
    change = np.where(rows["flags"] & _profile.OOM, 0, rows["size"])
    told = np.flatnonzero(rows["flags"] & _profile.ALLOCATED)
    if not len(told):
        return _Trace(rows, at, 0, 0, has_totals=False)
    total = np.cumsum(change)
    start = int(rows["allocated"][told[0]] - total[told[0]])
    disagreeing = int(np.count_nonzero(start + total[told] != rows["allocated"][told]))
    before = start - _freed_of_before(rows["address"], change)
    return _Trace(rows, at, max(before, 0), disagreeing + (before < 0), has_totals=True)


def _freed_of_before(address: NDArray[np.uint64], change: NDArray[np.int64]) -> int:
    """Return the number of bytes that were allocated before the first event and freed later. These
    are at addresses whose first event is a free.
    """
    there = np.flatnonzero(change)
    _, first = np.unique(address[there], return_index=True)
    sizes = change[there[first]]
    return int(-sizes[sizes < 0].sum())


def _notes(memory: NDArray[np.void], traces: dict[int, _Trace]) -> dict[str, object]:
    """Return the information about the trace that goes into the snapshot's notes."""
    found: dict[str, object] = {
        "cpu_events": int(np.count_nonzero(memory["device_type"] == CPU)),
        "disagreeing": {str(d): one.disagreeing for d, one in traces.items() if one.disagreeing},
        "without_totals": [d for d, one in traces.items() if not one.has_totals],
    }
    reserved = {str(device): int(one.rows["reserved"].max()) for device, one in traces.items()}
    found["reserved_peak_bytes"] = {key: peak for key, peak in reserved.items() if peak > 0}
    return found


class _Filling:
    """Fills the tables with the events, their stacks and the annotations."""

    def __init__(
        self,
        adding: Adding,
        profile: _profile.Profile,
        memory: NDArray[np.void],
        spans: NDArray[np.void],
    ) -> None:
        self.adding = adding
        self.profile = profile
        self.memory = memory
        self.spans = spans

    def fill(self, traces: dict[int, _Trace]) -> None:
        """Fill all tables in the order that `Adding` requires."""
        stack_of = self._stacks(np.concatenate([one.at for one in traces.values()]))
        self._annotations(list(traces))
        for device in range(1 + max(traces)):
            self.adding.trace(device)
            if device in traces:
                self._events(traces[device], stack_of)

    def _times(self, times: NDArray[np.float64]) -> NDArray[np.int64]:
        """Convert to microseconds since the epoch, rounded down."""
        whole, rest = divmod(self.profile.base_ns, 1000)
        found: NDArray[np.int64] = np.floor(times + rest / 1000).astype(np.int64) + whole
        return found

    def _events(self, trace: _Trace, stack_of: NDArray[np.uint32]) -> None:
        rows = trace.rows
        times = self._times(rows["time"])
        # First free address after all blocks, used for memory without known addresses.
        end = int(rows["address"].max()) + int(np.abs(rows["size"]).max())
        free = (end // _ROUND + 1) * _ROUND if end < 2**62 else _ROUND
        if trace.before_bytes:
            self.adding.carried(free, trace.before_bytes, int(times[0]))
            free += (trace.before_bytes // _ROUND + 1) * _ROUND
        failed = (rows["flags"] & _profile.OOM) != 0
        action = np.where(failed, _OOM, np.where(rows["size"] < 0, _FREE, _ALLOC)).astype("u1")
        address = np.where(failed, np.uint64(0), rows["address"])
        # The trace only has the total of reserved memory. Each change of the total becomes a
        # mapping at an address after all blocks. The sum is right, but the addresses are made up.
        reserved = rows["reserved"]
        at = np.flatnonzero(np.diff(reserved, prepend=0))
        before = np.concatenate([[0], reserved])[at]
        grown = reserved[at] - before
        action = np.insert(action, at, np.where(grown > 0, _MAP, _UNMAP))
        lowest = np.minimum(before, reserved[at]).astype("u8")
        address = np.insert(address, at, lowest + np.uint64(free))
        size = np.insert(np.abs(rows["size"]), at, np.abs(grown))
        n = len(action)
        none = np.full(n, ABSENT, "u4")
        self.adding.events(
            action,
            address,
            size,
            np.insert(times, at, times[at]),
            np.zeros(n, "u8"),
            np.insert(stack_of[trace.at], at, stack_of[trace.at][at]),
            none,
            none,
            none,
            np.zeros(n, "i8"),
            np.zeros(n, "u1"),
        )

    # ---- stacks

    def _stacks(self, at: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return each memory event's stack id. The stack consists of the operators and Python calls
        around the event.
        """
        calls = np.flatnonzero(self.spans["kind"] != _profile.ANNOTATION)
        entries = np.concatenate([calls, at + len(self.spans)])
        span, event = self.spans[calls], self.memory[at]
        order = np.lexsort(
            (
                np.concatenate([-span["duration"], np.zeros(len(at))]),
                np.concatenate([np.zeros(len(calls), "u1"), np.ones(len(at), "u1")]),
                *(
                    np.concatenate([span[one], event[other]])
                    for one, other in (("begin", "time"), ("tid", "tid"), ("pid", "pid"))
                ),
            )
        )
        columns = self.profile.nest(entries[order].astype("u4"))
        stack_of, ends, codes = map(np.asarray, columns)
        frames, numbers, kept = self._frames(codes)
        self.adding.frames(*frames)
        before = np.concatenate([[0], np.cumsum(kept)])
        # Offsets are in bytes of `codes`. Each stack starts where the previous one ends.
        offsets = before[(ends // 4).astype(np.int64)]
        self.adding.stacks(offsets.astype("i4"), numbers)
        return np.asarray(stack_of)

    def _frames(
        self, codes: NDArray[np.uint32]
    ) -> tuple[list[NDArray[np.generic]], NDArray[np.uint32], NDArray[np.bool_]]:
        """Return the frames, each code's frame number, and whether each code is a frame.

        Python's built-in functions and module names aren't frames.
        """
        words, place = np.unique(codes, return_inverse=True)
        said: list[tuple[bytes, bytes, int]] = []
        number = np.full(len(words), ABSENT, "u4")
        for i, code in enumerate(words.tolist()):
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
        line = np.array([frame[2] for frame in said], "i8")
        none = np.zeros(len(said), "u4")
        all_numbers = number[place.reshape(-1)]
        kept = all_numbers != ABSENT
        return [function, file, line, none, none, none, none], all_numbers[kept], kept

    def _texts(self, texts: list[bytes]) -> NDArray[np.uint32]:
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        if len(ends) and ends[-1] >= 2**31:
            raise LimitError("the names in the trace are too long for one table")
        offsets = np.concatenate([[0], ends]).astype("i4")
        data = b"".join(texts)
        return np.asarray(self.adding.intern(data or b"\0", offsets))

    # ---- annotations

    def _annotations(self, devices: list[int]) -> None:
        spans = self.spans[self.spans["kind"] == _profile.ANNOTATION]
        n = len(spans)
        if not n:
            return
        # At equal times, ends sort before starts.
        ends = spans["begin"] + spans["duration"]
        rank = np.concatenate([np.ones(n, "u1"), np.where(spans["duration"] > 0, 0, 2)])
        order = np.lexsort((rank, np.concatenate([spans["begin"], ends])))
        begin, end = self._texts([b"START", b"END"])
        named, place = np.unique(spans["name"], return_inverse=True)
        name = self._texts([self.profile.text(i) for i in named.tolist()])[place.reshape(-1)]
        for device in devices:
            self.adding.annotations(
                np.full(2 * n, device, "i4"),
                self._times(np.concatenate([spans["begin"], ends])[order]),
                np.concatenate([np.full(n, begin, "u4"), np.full(n, end, "u4")])[order],
                np.concatenate([name, name])[order],
            )


def _call(name: bytes) -> tuple[bytes, bytes, int] | None:
    """Return a Python call's function, file and line; None for other names."""
    found = _CALL.fullmatch(name.decode("utf-8", "surrogateescape"))
    if found is None:
        return None
    function, file = (found[key].encode("utf-8", "surrogateescape") for key in ("function", "file"))
    return function, file, int(found["line"])
