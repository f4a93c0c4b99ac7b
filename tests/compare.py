"""Compare everything memreplay reads and replays with the oracle, number by number."""

from __future__ import annotations

import json
from typing import Any

import memreplay as mr
import memreplay._core as _core
from memreplay.engine.query import _groups
from tests import oracle

ANY_RANK = 0


def assert_like_oracle(data: Any, snapshot: Any) -> mr.Snapshot:
    """Check that every column, count and series in `data` equals the oracle's reading of
    `snapshot`.
    """
    snap = mr.open(data)
    assert list(snap.devices) == oracle.devices(snapshot)
    assert_columns(snap, snapshot)
    for device in snap.devices:
        assert_replay(snap, snapshot, device)
    return snap


def stack_of(snap: mr.Snapshot, i: int) -> oracle.Stack:
    """Return stack i in the oracle's format."""
    return tuple((f.function, f.file, f.line) for f in snap.stack(i))


def assert_columns(snap: mr.Snapshot, snapshot: Any) -> None:
    """Check each event's fields."""
    expected = [
        (device, row) for device, rows in enumerate(oracle.columns(snapshot)) for row in rows
    ]
    events = snap.events
    assert len(events) == len(expected)
    for i, (device, row) in enumerate(expected):
        time = int(events.time_us[i])
        assert int(events.device[i]) == device
        assert (snap.action_name(int(events.action[i])) or "") == row.action
        assert int(events.address[i]) == row.addr
        assert int(events.size[i]) == row.size
        assert int(events.stream[i]) == row.stream
        assert (None if time == _core.ABSENT_TIME else time) == row.time_us
        assert stack_of(snap, int(events.stack[i])) == row.frames
        assert snap.metadata(int(events.compile_context[i])) == row.compile_context
        assert snap.metadata(int(events.user_metadata[i])) == row.user_metadata
        assert snap.pool_id(int(events.pool[i])) == row.pool_id


def assert_replay(snap: mr.Snapshot, snapshot: Any, device: int) -> None:
    """Check one device's series, counts, lifetimes, live sets and groups."""
    replay = snap.replay(device)
    want = oracle.replay(snapshot, device)
    assert replay.usage.tolist() == want.usage
    assert replay.peak.bytes == want.peak_bytes
    assert replay.peak.event_index == want.event_index
    for name in (
        "carried_over_bytes",
        "end_bytes",
        "reconciliation_bytes",
        "double_allocs",
        "unmatched_frees",
        "size_mismatches",
        "unknown_actions",
    ):
        assert getattr(replay, name) == getattr(want, name), name
    found = replay.lifetimes
    assert [
        (
            int(found.alloc_event[i]),
            None if found.free_event[i] < 0 else int(found.free_event[i]),
            int(found.address[i]),
            int(found.size[i]),
            stack_of(snap, int(found.stack[i])),
        )
        for i in range(len(found))
    ] == [(x.alloc_index, x.free_index, x.addr, x.size, x.frames) for x in want.lifetimes]
    moments = {-1, want.event_index, len(want.usage) - 1, len(want.usage) // 2 - 1}
    for event in sorted(moments):
        assert_live(snap, replay, want, event)


def assert_live(
    snap: mr.Snapshot, replay: mr.Replay, want: oracle.OracleReplay, event: int
) -> None:
    """Compare the live set after one event, plain and grouped; the groups must add up to the
    total.
    """
    live = replay.live_at(event=event)
    expected = want.live_at(event)
    key = [(x.alloc_index, x.addr, x.size, x.frames) for x in expected]
    assert [
        (
            int(live.alloc_event[i]),
            int(live.address[i]),
            int(live.size[i]),
            stack_of(snap, int(live.stack[i])),
        )
        for i in range(len(live))
    ] == key
    usage = want.carried_over_bytes if event < 0 else want.usage[event]
    assert live.bytes == usage
    ranks = bytes(snap.native.n_strings)
    for by in ("stack", "line", "file", "function"):
        keys = _groups.stack_keys(replay.native, by, ranks, ranks)
        measure = replay.measure().native
        found, total, whole, count = keys.sums(measure.live(event), measure, 0)
        rows = [(name, n_bytes, n) for name, _, n_bytes, n, _ in found]
        assert whole == sum(r[1] for r in rows) == usage
        assert count == sum(r[2] for r in rows) == len(expected)
        assert total == len(rows)
        assert rows == sorted(rows, key=lambda r: (-r[1], -r[2], r[0]))
        assert _spelled(snap, rows, by) == _oracle_groups(expected, by)


def _spelled(snap: mr.Snapshot, rows: list[tuple[int, int, int]], by: str) -> dict[Any, Any]:
    out: dict[Any, tuple[int, int]] = {}
    for key, size, count in rows:
        name: Any
        if key in (_groups.NO_STACK, _groups.CARRIED):
            name = "carried" if key == _groups.CARRIED else "none"
        elif by == "stack":
            name = stack_of(snap, key)
        elif by == "line":
            frame = snap.frame(key)
            name = (frame.function, frame.file, frame.line)
        else:
            name = ("text", snap.text(key))
        # The oracle doesn't distinguish frames that differ only in their fx fields.
        old = out.get(name, (0, 0))
        out[name] = (old[0] + size, old[1] + count)
    return out


def _oracle_groups(live: list[oracle.Lifetime], by: str) -> dict[Any, Any]:
    out: dict[Any, tuple[int, int]] = {}
    for one in live:
        name: Any
        if not one.frames:
            name = "carried" if one.alloc_index < 0 else "none"
        elif by == "stack":
            name = one.frames
        elif by == "line":
            name = one.frames[0]
        else:
            name = ("text", one.frames[0][1 if by == "file" else 0])
        old = out.get(name, (0, 0))
        out[name] = (old[0] + one.size, old[1] + 1)
    return out


def canonical(value: Any) -> Any:
    """Return a value as it looks after a round trip through JSON (tuples become lists)."""
    return json.loads(json.dumps(value))
