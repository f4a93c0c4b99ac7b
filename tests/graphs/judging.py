"""Judge one pickle: compare memreplay with pickle.load and the slow oracles."""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import memreplay as mr
from memreplay.commands.peak.find import peak_report
from memreplay.snapshot.model import By, MeasureName
from tests import oracle, oracle_measures
from tests.compare import assert_columns, assert_replay, stack_of
from tests.graphs import reading

ABSENT_TIME = -(2**63)
# Errors without a byte position: those about the file's format, or the sum of its sizes.
PLACELESS = (
    "not a memory snapshot: a dict with neither",
    "the allocator settings, or memreplay's notes, have too many",
    "the sizes of device ",
)
BYS: tuple[By, ...] = ("stack", "line", "file", "function")


class JudgedError(AssertionError):
    """A result that can't be right."""


def must(true: object, what: str) -> None:
    if not true:
        raise JudgedError(what)


class _Data(pickle.Unpickler):
    """Python's own unpickler, restricted to data."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("persistent")


def loaded(data: bytes) -> Any:
    """Return pickle.load's result or exception."""
    try:
        return _Data(io.BytesIO(data)).load()
    except Exception as error:  # it can raise any exception
        return error


def judge(data: bytes, *, sound: bool = False, called: bool = False) -> str:
    """Return a pickle's outcome as a word. With `sound`, the pickle must be accepted; with
    `called`, it must be rejected.
    """
    found = loaded(data)
    snap, error = opened(data)
    if snap is None:
        must(not sound, f"refused, and sound: {error}")
        return "refused" if not isinstance(error, mr.LimitError) else "refused: limit"
    must(not called, "read, though it calls")
    if isinstance(found, Exception):
        must(not sound, f"what pickle.load does not read: {found!r}")
        return "read, not by pickle"
    try:
        snapshot = reading.snapshot_of(found)
    except reading.WrongError as wrong:
        raise JudgedError(f"read, though it holds {wrong}") from wrong
    error = compared(snap, snapshot)
    if error is not None:
        must(not sound, f"refused, and sound: {error}")
        return "no replay"
    return "replayed" if len(snap.events) else "read"


def opened(data: bytes) -> tuple[mr.Snapshot | None, mr.SnapshotError | None]:
    try:
        return mr.open(data), None
    except mr.SnapshotError as error:
        check_error(error, data)
        return None, error


def check_error(error: mr.SnapshotError, data: bytes) -> None:
    text = str(error)
    must(text.isprintable() and text.isascii(), f"no plain line: {text!r}")
    must(0 < len(text) < 800, f"a line of {len(text)} characters")
    must(error.hint, f"an error without a remedy: {text}")
    if error.offset is None:
        must(text.startswith(PLACELESS), f"an error without a place: {text}")
    else:
        # If data is missing, the position is the end of the file.
        must(0 <= error.offset <= len(data), f"a place outside of the pickle: {text}")


# ---- number by number ----------------------------------------------------------------------------


def compared(snap: mr.Snapshot, snapshot: Any) -> mr.SnapshotError | None:
    """Compare everything with the oracles. If a lazily read part is rejected, compare everything
    before it, and return which part.
    """
    devices = oracle.devices(snapshot)
    must(list(snap.devices) == devices, f"devices {snap.devices}, not {devices}")
    compared_events(snap, snapshot)
    compared_end(snap, snapshot)
    try:
        compared_kept(snap, snapshot)
        for device in devices:
            snap.replay(device)
    except mr.SnapshotError as error:
        check_error(error, b" ")
        return error
    told = told_apart(snapshot)
    for device in devices:
        if told:
            assert_replay(snap, snapshot, device)
        else:
            must(
                snap.replay(device).usage.tolist() == oracle.replay(snapshot, device).usage, "usage"
            )
        compared_measures(snap.replay(device), snapshot, device)
    for by in BYS:
        compared_groups(snap, by)
    return None


def told_apart(snapshot: Any) -> bool:
    """Return whether frames differ even without fx keys, which the oracle ignores. This decides
    whether frees carry their allocs' stacks.
    """
    holders = [one for trace in oracle.traces_of(snapshot) for one in trace]
    frames = [frame for one in holders for frame in one.get("frames", [])]
    plain = {(one["name"], one["filename"], one["line"]) for one in frames}
    return len(plain) == len({(*one.values(),) for one in frames})


def compared_events(snap: mr.Snapshot, snapshot: Any) -> None:
    if isinstance(snapshot, dict):
        events = [one for trace in snapshot.get("device_traces", []) for one in trace]
        contexts = [(one.get("compile_context"), one.get("user_metadata")) for one in events]
        for i, (context, metadata) in enumerate(contexts):
            got = snap.metadata(int(snap.events.compile_context[i]))
            must(same(got, context), f"compile_context of {i}: {got!r}, not {context!r}")
            got = snap.metadata(int(snap.events.user_metadata[i]))
            must(same(got, metadata), f"user_metadata of {i}: {got!r}, not {metadata!r}")
        free = [(i, one["device_free"]) for i, one in enumerate(events) if "device_free" in one]
        rows = zip(snap.ooms.event.tolist(), snap.ooms.device_free.tolist(), strict=True)
        must(list(rows) == free, "device_free")
    assert_columns(snap, without_metadata(snapshot, snap))


def without_metadata(snapshot: Any, snap: mr.Snapshot) -> Any:
    """Drop memreplay's metadata, which was already compared, because NaN isn't equal to itself."""
    if isinstance(snapshot, list):
        return snapshot
    traces, at = [], 0
    for trace in snapshot.get("device_traces", []):
        changed = []
        for one in trace:
            changed.append(
                {
                    **one,
                    "compile_context": snap.metadata(int(snap.events.compile_context[at])),
                    "user_metadata": snap.metadata(int(snap.events.user_metadata[at])),
                }
            )
            at += 1
        traces.append(changed)
    return {**snapshot, "device_traces": traces}


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same, including types and NaN; 1 isn't True."""
    if other is reading.Dropped:
        return one is None or isinstance(one, (list, dict))
    if isinstance(other, reading.Tuple):
        return one is None or (isinstance(one, list) and same(one, list(other)))
    if isinstance(other, float) and not math.isfinite(other):
        return one is None or repr(one) == repr(other)  # JSON has neither NaN nor infinity
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def compared_end(snap: mr.Snapshot, snapshot: Any) -> None:
    """Compare the segments, blocks and annotations row by row."""
    segments = oracle.segments_of(snapshot)
    compared_segments(snap, segments)
    compared_blocks(snap, segments)
    notes = snapshot.get("external_annotations", []) if isinstance(snapshot, dict) else []
    marks = snap.annotations
    got = [
        (
            *(snap.text(int(marks.name[i])), snap.text(int(marks.stage[i]))),
            *(int(marks.device[i]), int(marks.time_us[i])),
        )
        for i in range(len(marks))
    ]
    want = [
        (one.get("name", ""), one.get("stage", ""), one.get("device", -1), when(one))
        for one in notes
    ]
    must(got == want, f"annotations: {got}, not {want}")


def compared_segments(snap: mr.Snapshot, segments: list[dict[str, Any]]) -> None:
    table = snap.segments
    must(len(table) == len(segments), "segments")
    for i, one in enumerate(segments):
        got = (
            *(int(table.device[i]), int(table.address[i]), int(table.total_size[i])),
            *(int(table.allocated_size[i]), int(table.active_size[i])),
            *(int(table.stream[i]), snap.text(int(table.type[i]))),
            *(snap.pool_id(int(table.pool[i])), bool(table.is_expandable[i])),
            *(bool(table.has_requested_size[i]), int(table.requested_size[i])),
            stack_of(snap, int(table.stack[i])),
        )
        want = (
            *(one.get("device", 0), oracle.unsigned(one["address"]), one["total_size"]),
            *(one.get("allocated_size", 0), one.get("active_size", 0)),
            *(oracle.unsigned(one.get("stream", 0)), one.get("segment_type", "")),
            *(one.get("segment_pool_id"), bool(one.get("is_expandable", 0))),
            *("requested_size" in one, one.get("requested_size", 0)),
            oracle.stack_of(one),
        )
        must(got == want, f"segment {i}: {got}, not {want}")


def compared_blocks(snap: mr.Snapshot, segments: list[dict[str, Any]]) -> None:
    blocks = [(i, one) for i, segment in enumerate(segments) for one in segment["blocks"]]
    rows = snap.blocks
    must(len(rows) == len(blocks), "blocks")
    for i, (segment, block) in enumerate(blocks):
        state = snap.state_name(int(rows.state[i]))
        history = block.get("history")
        holder = history[0] if history and "frames" not in block else block
        got = (
            *(int(rows.segment[i]), int(rows.address[i]), int(rows.size[i])),
            *(state == "inactive", stack_of(snap, int(rows.stack[i]))),
        )
        want = (
            *(segment, oracle.unsigned(block["address"]), block.get("size", 0)),
            *(block.get("state") == "inactive", oracle.stack_of(holder)),
        )
        must(got == want, f"block {i}: {got}, not {want}")


def when(note: dict[str, Any]) -> int:
    return int(note.get("time_us", ABSENT_TIME))


def compared_kept(snap: mr.Snapshot, snapshot: Any) -> None:
    found = snapshot if isinstance(snapshot, dict) else {}
    for name, key in (
        ("settings", "allocator_settings"),
        ("overflowed", "trace_alloc_overflowed"),
        ("max_entries", "trace_alloc_max_entries"),
    ):
        got = snap.kept(name)
        if got is None and name == "settings" and isinstance(found.get(key), list):
            continue  # a list instead of a dict isn't kept
        must(same(got, found.get(key)), f"{key}: {got!r}, not {found.get(key)!r}")


def compared_measures(replay: mr.Replay, snapshot: Any, device: int) -> None:
    names: tuple[MeasureName, ...] = ("requested", "held", "active", "allocated", "reserved")
    for name in names:
        usage = replay.measure(name)
        series = [usage.start_bytes, *usage.series.tolist()]
        if name in ("held", "reserved"):
            want = getattr(oracle_measures, name)(snapshot, device)
            must(
                series == [want.carried_over_bytes, *want.usage],
                f"{name}: {series}, not {want.usage}",
            )
            must(usage.reconciliation_bytes == want.reconciliation_bytes, f"{name} at the end")
        must(len(series) == replay.events + 1, f"{name} at every event")
        must(min(series) >= 0 or name == "reserved", f"{name} below zero")
        must(usage.peak.bytes == max(series), f"the peak of {name}")
        at = usage.peak.event_index
        must(series.index(max(series)) == at + 1, f"the event of the peak of {name}")
        if name == "reserved":
            continue
        for event in (-1, at, replay.events // 2 - 1, replay.events - 1):
            live = usage.live_at(event=event)
            must(live.bytes == series[event + 1], f"who is there: {name} at {event}")
    for name in ("requested", "reserved"):
        usage = replay.measure(name)
        event = replay.events // 2 - 1
        there = [usage.start_bytes, *usage.series.tolist()][event + 1]
        for by in ("pool", "stream"):
            parts = usage.parts(by, event)
            must(sum(one.bytes for one in parts) == there, f"{name} by {by}")


def compared_groups(snap: mr.Snapshot, by: By) -> None:
    """Check that the groups at the peak add up to it."""
    report = peak_report(snap, by=by, top=0)
    for device in report.devices:
        replay = snap.replay(device.device)
        must(device.peak_bytes == replay.peak.bytes, "a report's peak")
        total = sum(one.bytes for one in device.groups) + device.rest_bytes
        count = sum(one.count for one in device.groups) + device.rest_count
        live = replay.live_at(event=replay.peak.event_index)
        must(total == device.peak_bytes and count == len(live), f"groups by {by}: {total}, {count}")
