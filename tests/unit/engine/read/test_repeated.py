"""repeated: an event that occurs again in the traces adds another row, and can't change."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops

EVENT = {"action": "alloc", "addr": 1, "size": 9}


def full() -> list[dict[str, Any]]:
    """Return events with every field, all different."""
    builder = SnapshotBuilder(user_metadata={"a": 1}, compile_context="0/1")
    for i in range(4):
        builder.alloc(4096 * i, 100 + i, frames=[("f", "a.py", i)], pool_id=(0, i), stream=i)
        builder.oom(50 + i, 7)
    trace: list[dict[str, Any]] = builder.build()["device_traces"][0]
    return trace


def column(snap: mr.Snapshot, name: str) -> list[int]:
    found: Any = snap.native.column(name)
    return memoryview(found).tolist()


@pytest.mark.parametrize("protocol", range(6))
def test_every_column_is_copied(protocol: int) -> None:
    trace = full()
    snapshot = {"device_traces": [trace + trace[::-1], trace[2:4] * 2]}
    snap = assert_like_oracle(build.dump(snapshot, protocol), snapshot)
    data = build.dump(build.unshare(snapshot), protocol)
    twin = mr.open(data)
    for name in ("action", "address", "size", "stream", "time_us", "stack", "pool"):
        assert getattr(snap.events, name).tolist() == getattr(twin.events, name).tolist()
    for name in ("oom_event", "oom_free"):
        assert column(snap, name) == column(twin, name) != []


def test_event_inside_another_event_is_not_an_event() -> None:
    snapshot = {"device_traces": [[EVENT, {"last": EVENT}, {"last": EVENT, "size": 5}]]}
    for protocol in range(6):
        assert_like_oracle(build.dump(snapshot, protocol), snapshot)
    assert_like_oracle(build.dump_cpp(snapshot), snapshot)


def test_event_may_be_duplicated_on_the_stack() -> None:
    for padding in (b"", b"N0"):
        ops = Ops().proto(4).empty_dict().mark().string("device_traces").empty_list()
        ops.empty_list().mark().empty_dict().mark().string("addr").integer(7).setitems()
        ops.raw(padding).op("DUP").op("DUP").appends().append().setitems().stop()
        snap = assert_like_oracle(bytes(ops), oracle.load(bytes(ops)))
        assert snap.events.address.tolist() == [7, 7, 7]


def start() -> Ops:
    ops = Ops().proto(4).empty_dict().mark().string("device_traces").empty_list().empty_list()
    return ops.empty_dict().put(0).string("action").string("alloc").setitem().append()


def test_copy_does_not_change() -> None:
    ops = start().get(0).string("addr").integer(7).setitem().append()
    data = bytes(ops.append().setitems().stop())
    oracle.load(data)
    with pytest.raises(mr.SnapshotError, match=r"an event that changes after its use .*SETITEM"):
        mr.open(data)


def test_copy_used_elsewhere_is_refused() -> None:
    data = bytes(start().get(0).op("POP").append().setitems().stop())
    oracle.load(data)
    with pytest.raises(mr.SnapshotError):
        mr.open(data)


def test_copy_is_refused_when_reading_a_range() -> None:
    data = build.dump({"device_traces": [[EVENT, EVENT, EVENT]]})
    assert mr.open(data).native.n_events == 3
    with pytest.raises(mr.SnapshotError, match="is in the trace twice"):
        mr.open(data, start=1)
