"""Keep what is live at the edge of PyTorch's ring buffer, so that nothing in a snapshot is of
unknown origin.

PyTorch keeps only the last events. Blocks whose alloc was overwritten are still freed later, and
then the file doesn't say who allocated them. So now and then the ring takes an edge: PyTorch's list
of blocks, with their stacks, and a marker in PyTorch's own events at exactly that moment. A
snapshot begins at the oldest marker that is still there, with the blocks of its edge.
"""

from __future__ import annotations

import base64
import sys
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from memreplay.engine.record import _tracker
from memreplay.io.packing import as_text

# PyTorch's counters of its events, in memory_stats().
COUNTERS = (
    ("allocation", "allocated"),
    ("allocation", "freed"),
    ("active", "freed"),
    ("segment", "allocated"),
    ("segment", "freed"),
)
Events = list[dict[str, Any]]
ENTRIES = 200_000  # default number of events that PyTorch keeps for each device
MARK = "memreplay edge "  # begins the metadata of an edge's marker


class Edge(NamedTuple):
    """The blocks at one moment."""

    number: int
    counts: list[int]
    """For each device, how many events there were before."""
    time_us: int
    segments: Events


class Counts(NamedTuple):
    """PyTorch's counters, summed up since the ring began."""

    events: list[int]
    """For each device, the number of events."""
    peaks: list[int]
    """For each device, the largest number of requested bytes that is known."""


class Ring:
    """The edges of a running recording.

    Parameters
    ----------
    devices : module
        `torch.cuda` or `torch.xpu`.
    entries : int
        How many events PyTorch keeps for each device.
    clear : callable
        Makes PyTorch forget all events. Versions before 2.10 can't list blocks without also
        listing all events, which takes long. There, the ring clears the events at each edge.
    """

    def __init__(self, devices: Any, entries: int, clear: Callable[[], None]) -> None:
        self.devices, self.entries, self.clear = devices, entries, clear
        self.light = hasattr(devices.memory, "_set_memory_metadata")
        self.edges: deque[Edge] = deque()
        self.taken = 0
        self.among: range | None = None
        """Numbers of the edges at which the window's file may begin; None: it's another file."""
        self.forget: Callable[[int], None] = lambda _: None
        """Called with the time before which nothing is needed any more."""
        self.last: dict[tuple[int, str], int] = {}  # each counter's last value
        self.counts = Counts([0] * devices.device_count(), [0] * devices.device_count())
        self.take()

    # --- events and bytes -------------------------------------------------------------------------

    def look(self) -> Counts:
        """Read PyTorch's counters, and take an edge if it's time."""
        found: dict[str, Any] = {}
        events, peaks = list(self.counts.events), list(self.counts.peaks)
        for device in range(len(events)):
            found = self.devices.memory_stats_as_nested_dict(device)
            if not found:
                continue
            requested = found.get("requested_bytes") or found["allocated_bytes"]
            peaks[device] = max(peaks[device], requested["all"]["peak"])
            for kind, end in COUNTERS:
                if kind in found:
                    count = found[kind]["all"][end]
                    events[device] += self.risen(device, f"{kind} {end}", count)
        if "allocation" not in found:  # XPU doesn't count allocations
            events[0] += self.risen(0, "tracked", _tracker.count() * 3 // 2)
        self.counts = Counts(events, peaks)
        if self.behind(self.edges[-1]) * (4 if self.light else 4 / 3) >= self.entries:
            self.take()
        return self.counts

    def risen(self, device: int, name: str, now: int) -> int:
        """Return by how much a counter has risen; the program may have reset it."""
        before = self.last.get((device, name), 0)
        self.last[device, name] = now
        return now - before if now >= before else now

    def behind(self, edge: Edge) -> int:
        """Return how many events the busiest device had since an edge."""
        return max(
            (now - then for now, then in zip(self.counts.events, edge.counts, strict=True)),
            default=0,
        )

    # --- edges ------------------------------------------------------------------------------------

    def take(self) -> Edge:
        """Take an edge now, and return it."""
        memory = self.devices.memory
        self.taken = number = self.taken + 1  # a signal's handler may take another edge meanwhile
        if self.light:
            with self.marking(f"{MARK}{number}"):
                segments = memory.memory_snapshot(include_traces=False)
        else:
            self.edges.clear()
            self.clear()
            segments = memory._snapshot()["segments"]
        edge = Edge(number, list(self.counts.events), _tracker.now_us(), segments)
        self.edges.append(edge)
        # PyTorch has overwritten the oldest edges' markers, or soon will.
        while len(self.edges) > 1 and self.behind(self.edges[0]) >= self.entries:
            self.edges.popleft()
        self.forget(self.edges[0].time_us)
        return edge

    @contextmanager
    def marking(self, text: str) -> Iterator[None]:
        """Let PyTorch's markers of snapshots contain a text."""
        memory = self.devices.memory
        before = memory._get_memory_metadata()
        memory._set_memory_metadata(text)
        try:
            yield
        finally:
            memory._set_memory_metadata(before)

    @contextmanager
    def since(self, number: int) -> Iterator[None]:
        """Write the file of a window that began at an edge, and begin the next window."""
        self.among = range(number, self.taken + 1)
        try:
            yield
        finally:
            self.among = None
            if not self.light:
                self.take()  # after the file, because this clears the events

    def snapshot(self) -> dict[str, Any]:
        """Return PyTorch's snapshot, with the events up to an edge and the blocks of that edge.

        PyTorch reads events and blocks one after the other, and other threads go on in between. An
        edge is of one moment.
        """
        if not self.light:
            return self.devices.memory._snapshot()  # type: ignore[no-any-return]
        end = self.take()
        with self.marking(""):  # not the text of an edge that a signal interrupted
            found: dict[str, Any] = self.devices.memory._snapshot()
        places = [self.markers(trace).get(end.number) for trace in found["device_traces"]]
        for trace, place in zip(found["device_traces"], places, strict=True):
            del trace[len(trace) if place is None else place :]
        return {**found, "segments": end.segments}

    def cut(self, found: dict[str, Any]) -> list[Events] | None:
        """Cut PyTorch's snapshot off before the oldest edge that is in all of its traces.

        Returns, for each trace, events for the blocks that were live there. Returns None if no edge
        is left; then the snapshot doesn't change.
        """
        traces = found["device_traces"]
        marked = [self.markers(trace) for trace in traces]
        for edge in tuple(self.edges):
            places = [there.get(edge.number) for there in marked]
            # A device that the program doesn't use has neither events nor a marker.
            known = all(
                place is not None or not trace for place, trace in zip(places, traces, strict=True)
            )
            if known and (self.among is None or edge.number in self.among):
                break
        else:
            return None
        if self.late(edge, traces, places):
            return None
        for trace, place in zip(traces, places, strict=True):
            del trace[: 0 if place is None else place + 1]
        # PyTorch keeps as many annotations as events, from far longer ago.
        annotations = found.get("external_annotations", [])
        annotations[:] = [one for one in annotations if one["time_us"] >= edge.time_us]
        return [carried_events(edge.segments, i, trace) for i, trace in enumerate(traces)]

    def late(self, edge: Edge, traces: list[Events], places: list[int | None]) -> bool:
        """Return whether an edge was taken so late that PyTorch has many more events before it.

        This happens if the thread that takes edges had to wait while the program went on.
        """
        if self.among is not None and edge.number == self.among.start:
            return False
        before = sum(place or 0 for place in places)
        return before > 3 / 4 * sum(map(len, traces))

    def markers(self, trace: Events) -> dict[int, int]:
        """Return the place of each edge's marker in a trace."""
        snapshots = [i for i, event in enumerate(trace) if event["action"] == "snapshot"]
        if not self.light:
            # The first one, because the trace was cleared before.
            return {self.taken: snapshots[0]} if snapshots else {}
        found: dict[int, int] = {}
        for i in snapshots:
            text = trace[i].get("user_metadata")
            if isinstance(text, str) and text.startswith(MARK):
                found[int(text[len(MARK) :])] = i
        return found


def carried_events(segments: Events, device: int, trace: Events) -> Events:
    """Return events for the blocks of an edge that have events in the trace after it.

    The others are live to the end, so the snapshot's segments have them.
    """
    named = {
        event["addr"]
        for event in trace
        if event["action"] == "alloc" or event["action"].startswith("free_")
    }
    time = {"time_us": trace[0]["time_us"]} if trace and "time_us" in trace[0] else {}
    found = []
    for segment in segments:
        if segment["device"] != device:
            continue
        pool = {"pool_id": segment["segment_pool_id"]} if "segment_pool_id" in segment else {}
        for block in segment["blocks"]:
            waits = block["state"] not in ("inactive", "active_allocated")
            if block["state"] == "inactive" or not (waits or block["address"] in named):
                continue
            event = {
                "action": "alloc",
                "addr": block["address"],
                "size": block["requested_size"],
                "stream": segment["stream"],
                **time,
                **({"frames": block["frames"]} if "frames" in block else {}),
                **pool,
                "memreplay_carried": block["size"],
            }
            found.append(event)
            if waits:
                found.append({**event, "action": "free_requested"})
    return found


def put_before(traces: list[Events], carried: list[Events], notes: dict[str, Any]) -> None:
    """Put carried-over blocks before the traces' events, and their kinds before the notes."""
    noted = notes.get("allocations")
    if noted is not None:
        before = noted["before"]
        kinds = dict(
            zip(numbers(before["addresses"], "Q"), numbers(before["kinds"], "I"), strict=True)
        )
        noted["events"] = [
            packed([_kind(event, kinds) for event in blocks], numbers(column, "I"))
            for blocks, column in zip(carried, noted["events"], strict=True)
        ]
        notes["steps"] = [
            [end + len(blocks) for end in ends]
            for blocks, ends in zip(carried, notes["steps"], strict=True)
        ]
    for trace, blocks in zip(traces, carried, strict=True):
        trace[:0] = blocks


def _kind(event: dict[str, Any], kinds: dict[int, int]) -> int:
    return kinds.get(event["addr"], 0) if event["action"] == "alloc" else 0


def numbers(text: str, form: str) -> array[int]:
    """Return a column of a snapshot's notes (docs/format.md)."""
    found = array(form, zlib.decompress(base64.b64decode(text)))
    if sys.byteorder == "big":
        found.byteswap()
    return found


def packed(first: list[int], rest: array[int]) -> str:
    """Return a column with numbers before its own, in the notes' form."""
    found = array("I", first) + rest
    if sys.byteorder == "big":
        found.byteswap()
    return as_text(found.tobytes())
