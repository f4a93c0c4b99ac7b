"""Replay a snapshot with slow, simple code: the reference for every faster replay.

It uses plain Python objects and applies one rule after another, so you can check it by eye. The
measure is requested bytes, from `alloc` to `free_completed`.
"""

from __future__ import annotations

import io
import math
import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

FrameTuple = tuple[str, str, int]  # function name, file name, line
Stack = tuple[FrameTuple, ...]  # innermost first

KNOWN_ACTIONS = {
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",
    "snapshot",
    "user_defined",
    "annotate",
    "workspace_snapshot",
    "empty_cache",
}


@dataclass
class Lifetime:
    """A block from its alloc (-1: live before the first event) to its free (None: never)."""

    alloc_index: int
    free_index: int | None
    addr: int
    size: int
    frames: Stack


@dataclass
class OracleReplay:
    """One device's history. `usage[i]` is the usage after event i; `carried_over_bytes` is the
    usage at the start.
    """

    device: int
    usage: list[int]
    carried_over_bytes: int
    peak_bytes: int
    event_index: int
    end_bytes: int
    reconciliation_bytes: int
    double_allocs: int
    unmatched_frees: int
    size_mismatches: int
    unknown_actions: int
    lifetimes: list[Lifetime]

    def live_at(self, event_index: int) -> list[Lifetime]:
        """Return the live set after this event; -1 is the start."""
        live = []
        for one in self.lifetimes:
            begun = one.alloc_index <= event_index
            ended = one.free_index is not None and one.free_index <= event_index
            if begun and not ended:
                live.append(one)
        return live

    def groups_by_stack(self, event_index: int) -> dict[Stack, tuple[int, int]]:
        """Return the live set after this event as stack -> (bytes, count)."""
        groups: dict[Stack, tuple[int, int]] = {}
        for one in self.live_at(event_index):
            size, count = groups.get(one.frames, (0, 0))
            groups[one.frames] = (size + one.size, count + 1)
        return groups


@dataclass
class Block:
    """A block in the final segments that isn't inactive."""

    addr: int
    requested_size: int
    state: str
    frames: Stack


class EventRow(NamedTuple):
    """One event as a table row; a missing address, size or stream is 0."""

    action: str
    addr: int
    size: int
    stream: int
    time_us: int | None
    frames: Stack
    compile_context: Any
    user_metadata: Any
    pool_id: tuple[int, ...] | None


def replay(snapshot: Any, device: int) -> OracleReplay:
    """Replay one device of a snapshot (a dict, or a bare list of segments)."""
    events = trace_of(snapshot, device)
    blocks = active_blocks(snapshot, device)

    live: dict[int, Lifetime] = {}  # only blocks allocated in this trace
    seen: set[int] = set()  # addresses seen in an alloc or free_completed so far
    from_trace: list[Lifetime] = []
    freed_carried: list[Lifetime] = []
    changes: list[int] = []  # each event's effect on usage
    double_allocs = unmatched_frees = size_mismatches = unknown_actions = 0
    pairs = 0
    pairs_with_equal_frames = 0

    stacks: dict[int, Stack] = {}  # by list of frames, which events share

    for index, event in enumerate(events):
        action = event.get("action", "")
        addr = unsigned(event.get("addr", 0))
        size = event.get("size", 0)
        its_list = id(event.get("frames"))
        if its_list not in stacks:
            stacks[its_list] = stack_of(event)
        frames = stacks[its_list]
        change = 0

        if action == "alloc":
            if addr in live:
                double_allocs += 1
                live[addr].free_index = index
                change -= live[addr].size
            live[addr] = Lifetime(index, None, addr, size, frames)
            from_trace.append(live[addr])
            change += size
            seen.add(addr)

        elif action == "free_completed":
            if addr in live:
                ended = live.pop(addr)
                ended.free_index = index
                change -= ended.size
                if ended.size != size:
                    size_mismatches += 1
                pairs += 1
                if ended.frames == frames:
                    pairs_with_equal_frames += 1
            elif addr not in seen:
                freed_carried.append(Lifetime(-1, index, addr, size, frames))
                change -= size
            else:
                unmatched_frees += 1
            seen.add(addr)

        elif action not in KNOWN_ACTIONS:
            unknown_actions += 1

        changes.append(change)

    # A free's stack is its alloc's stack only if the recorder attached one to every free.
    frees_carry_alloc_stacks = pairs > 0 and pairs == pairs_with_equal_frames
    if not frees_carry_alloc_stacks:
        for one in freed_carried:
            one.frames = ()

    kept_carried: list[Lifetime] = []
    for block in blocks:
        if block.addr not in seen:
            kept_carried.append(Lifetime(-1, None, block.addr, block.requested_size, block.frames))
            seen.add(block.addr)

    carried_over_bytes = sum(one.size for one in freed_carried + kept_carried)
    usage: list[int] = []
    current = carried_over_bytes
    for change in changes:
        current += change
        usage.append(current)

    peak_bytes = max([carried_over_bytes, *usage])
    event_index = -1 if carried_over_bytes == peak_bytes else usage.index(peak_bytes)

    return OracleReplay(
        device=device,
        usage=usage,
        carried_over_bytes=carried_over_bytes,
        peak_bytes=peak_bytes,
        event_index=event_index,
        end_bytes=current,
        reconciliation_bytes=current - sum(block.requested_size for block in blocks),
        double_allocs=double_allocs,
        unmatched_frees=unmatched_frees,
        size_mismatches=size_mismatches,
        unknown_actions=unknown_actions,
        lifetimes=from_trace + freed_carried + kept_carried,
    )


def devices(snapshot: Any) -> list[int]:
    """Return the devices that have events or segments, in ascending order. Unused devices are left
    out, unless all are unused.
    """
    found = {segment.get("device", 0) for segment in segments_of(snapshot)}
    idle = set()
    for device, trace in enumerate(traces_of(snapshot)):
        if any(one.get("action") != "snapshot" or one.get("size") for one in trace):
            found.add(device)
        elif trace:
            idle.add(device)
    return sorted(found or idle)


def columns(snapshot: Any) -> list[list[EventRow]]:
    """Return each device trace's events in order; an empty list for a device without events."""
    return [[_row(event) for event in trace] for trace in traces_of(snapshot)]


def load(data: bytes) -> Any:
    """Unpickle plain data; a pickle with imports raises UnpicklingError.

    Two functions are allowed: the ones with which TorchScript's old pickler tags containers.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == "torch.jit._pickle" and name in ("restore_type_tag", "build_intlist"):
            return lambda value, type_str="": value
        raise pickle.UnpicklingError(f"not plain data: {module}.{name}")


def segments_of(snapshot: Any) -> list[dict[str, Any]]:
    """Return the final segments of all devices."""
    if isinstance(snapshot, list):
        return snapshot
    segments: list[dict[str, Any]] = snapshot.get("segments", [])
    return segments


def traces_of(snapshot: Any) -> list[list[dict[str, Any]]]:
    """Return the events of all devices."""
    if isinstance(snapshot, list):
        return []
    traces: list[list[dict[str, Any]]] = snapshot.get("device_traces", [])
    return traces


def trace_of(snapshot: Any, device: int) -> list[dict[str, Any]]:
    """Return the events of one device."""
    traces = traces_of(snapshot)
    return traces[device] if 0 <= device < len(traces) else []


def active_blocks(snapshot: Any, device: int) -> list[Block]:
    """Return a device's blocks that aren't inactive, in file order, for any PyTorch since 2.0."""
    found = []
    for segment in segments_of(snapshot):
        if segment.get("device", 0) != device:
            continue
        running = segment.get("address", 0)
        for block in segment.get("blocks", []):
            history = block.get("history") or []
            addr = block.get("address", running)
            running += block.get("size", 0)
            if block.get("state") == "inactive":
                continue
            if "requested_size" in block:
                requested_size = block["requested_size"]
            elif history and "real_size" in history[0]:
                requested_size = history[0]["real_size"]
            else:
                requested_size = block.get("size", 0)
            holder = history[0] if history and "frames" not in block else block
            state = block.get("state", "")
            found.append(Block(unsigned(addr), requested_size, state, stack_of(holder)))
    return found


def _row(event: dict[str, Any]) -> EventRow:
    pool_id = event.get("pool_id")
    return EventRow(
        action=event.get("action", ""),
        addr=unsigned(event.get("addr", 0)),
        size=event.get("size", 0),
        stream=unsigned(event.get("stream", 0)),
        time_us=_whole(event.get("time_us")),
        frames=stack_of(event),
        compile_context=event.get("compile_context"),
        user_metadata=event.get("user_metadata"),
        pool_id=None if pool_id is None else tuple(pool_id),
    )


def stack_of(holder: dict[str, Any]) -> Stack:
    frames = holder.get("frames") or []
    return tuple((f.get("name", ""), f.get("filename", ""), line_of(f)) for f in frames)


def line_of(frame: dict[str, Any]) -> int:
    """Return a frame's line, or 0 for code without lines: CPython reports -1, and PyTorch stores
    that as an unsigned number.
    """
    line = int(frame.get("line", 0))
    return 0 if line in (-1, 2**64 - 1) else line


def _whole(time_us: float | None) -> int | None:
    """Return a time in whole microseconds, rounded down."""
    return None if time_us is None else math.floor(time_us)


def unsigned(value: int) -> int:
    """Convert an address or stream to unsigned 64 bits; the C++ pickler writes them signed."""
    return value & (2**64 - 1)
