"""A range's usage, peak and live sets match the whole file's, and the range keeps only its own
rows.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.commands.export.lines import render_dump
from memreplay.snapshot.model import Moment
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.compare import stack_of
from tests.dumped import Row, read_dump
from tests.strategies import traces

A, B, C, D = 0x1000, 0x2000, 0x3000, 0x4000


def bytes_live(want: oracle.OracleReplay, event: int) -> int:
    return want.carried_over_bytes if event < 0 else want.usage[event]


def assert_part(snap: mr.Snapshot, whole: Any, device: int, first: int, last: int) -> None:
    """Check that `snap` has exactly the device's events [first, last), with the same numbers as in
    the whole file.
    """
    want = oracle.replay(whole, device)
    replay = snap.replay(device)
    assert replay.events == max(0, last - first)
    assert snap.trace_events(device) == len(want.usage)
    if replay.events == 0:
        return
    assert replay.first_event == first
    assert replay.usage.tolist() == want.usage[first:last]
    assert replay.carried_over_bytes == bytes_live(want, first - 1)
    series = [bytes_live(want, event) for event in range(first - 1, last)]
    assert replay.peak.bytes == max(series)
    assert replay.peak.event_index == first - 1 + series.index(max(series))
    if last == len(want.usage):
        assert replay.reconciliation_bytes == want.reconciliation_bytes
    rows = slice(replay.native.first_row, replay.native.first_row + replay.events)
    columns = oracle.columns(whole)[device][first:last]
    assert snap.events.address[rows].tolist() == [row.addr for row in columns]
    assert [stack_of(snap, int(s)) for s in snap.events.stack[rows]] == [r.frames for r in columns]
    for event in {first - 1, (first + last) // 2, last - 1}:
        live = replay.live_at(event=event)
        expected = want.live_at(event)
        assert live.bytes == sum(x.size for x in expected)
        found = sorted(zip(live.address.tolist(), live.size.tolist(), strict=True))
        assert found == sorted((x.addr, x.size) for x in expected)


@given(snapshot=traces(max_events=30), data=st.data())
def test_range_of_events_matches_the_whole_file(snapshot: Any, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, 32), "first")
    last = data.draw(st.integers(first, 34), "last")
    wholes = [build.dump(snapshot), build.dump_cpp(snapshot), json.dumps(snapshot).encode()]
    for pickled in wholes:
        snap = mr.open(pickled, start=first, stop=last)
        for device in oracle.devices(snapshot):
            n = len(oracle.replay(snapshot, device).usage)
            assert_part(snap, snapshot, device, min(first, n), min(last, n))


@given(snapshot=traces(max_devices=3), data=st.data())
def test_one_device_matches_the_whole_file(snapshot: Any, data: st.DataObject) -> None:
    devices = oracle.devices(snapshot)
    if not devices:
        return
    device = data.draw(st.sampled_from(devices))
    for pickled in (build.dump(snapshot), json.dumps(snapshot).encode()):
        snap = mr.open(pickled, device=device)
        assert snap.devices == (device,)
        n = len(oracle.replay(snapshot, device).usage)
        assert snap.native.n_events == n
        assert_part(snap, snapshot, device, 0, n)


def timed() -> Any:
    builder = SnapshotBuilder()
    for i, time in enumerate((100, 110, 105, 120, 130)):
        builder.alloc(A + i, 1 << i, time_us=time)
    return builder.finish_segments().build()


@pytest.mark.parametrize(
    "start, stop, first, last",
    [
        (Moment("time", 110), None, 1, 5),
        (Moment("time", 111), None, 3, 5),
        (Moment("elapsed", 10), Moment("elapsed", 30), 1, 4),
        (None, Moment("time", 105), 0, 1),
        (2, Moment("elapsed", 1_000), 2, 5),
        (Moment("elapsed", 0), 2, 0, 2),
    ],
)
def test_time_range_follows_event_order(start: Any, stop: Any, first: int, last: int) -> None:
    snap = mr.open(build.dump(timed()), start=start, stop=stop)
    assert_part(snap, timed(), 0, first, last)


def test_allocation_spanning_the_range_is_found_wherever_it_is_freed() -> None:
    builder = SnapshotBuilder()
    builder.alloc(A, 1)  # allocated before the range, freed in it
    builder.alloc(B, 2).free(B, 2)  # freed before it
    builder.alloc(C, 4)  # allocated before it, never freed
    builder.free(A, 1).alloc(B, 8)
    builder.free(D, 16)  # freed after it, allocated at an unknown time
    whole = builder.finish_segments(extra_live=[(0, 0x9000, 32)]).build()
    snap = mr.open(build.dump(whole), start=5, stop=8)
    assert snap.replay().carried_over_bytes == 1 + 4 + 16 + 32
    assert_part(snap, whole, 0, 5, 8)


def test_rows_outside_the_range_are_not_kept() -> None:
    builder = SnapshotBuilder()
    for _ in range(1000):
        builder.alloc(A, 1).free(A, 1).oom(5)
    data = build.dump(builder.build())
    snap = mr.open(data, start=500, stop=510)
    assert len(snap.events) == 10
    column = snap.native.column("oom_event")
    assert not isinstance(column, int)
    assert memoryview(column).tolist() == [i - 500 for i in range(500, 510) if i % 4 == 3]


def test_time_range_without_times_is_an_error() -> None:
    data = build.dump(SnapshotBuilder(times=False).alloc(A, 1).build())
    with pytest.raises(mr.UsageError, match="has no times"):
        mr.open(data, start=Moment("elapsed", 5))
    assert mr.open(data, start=0).native.n_events == 1


def test_missing_device_is_an_error() -> None:
    data = build.dump(SnapshotBuilder(devices=2).alloc(A, 1, device=1).build())
    with pytest.raises(mr.UsageError, match="no device 0; this snapshot has: 1"):
        mr.open(data, device=0)
    with pytest.raises(mr.UsageError, match="no device -1; this snapshot has: 1"):
        mr.open(data, device=-1)
    for device in (-2, 2**31):
        with pytest.raises(mr.UsageError, match=f"no device {device}: device numbers start at 0"):
            mr.open(data, device=device)


@pytest.mark.parametrize("fmt", ["pickle", "json"])
def test_device_minus_one_selects_segments_without_a_device(fmt: str) -> None:
    made = SnapshotBuilder(devices=2).alloc(A, 1).alloc(B, 2, device=1)
    made.segment(C, 4096, device=-1, blocks=[made.block(C, 4096, 4000)])
    made.segment(D, 8192, device=1, blocks=[made.block(D, 8192, 7000)])
    data = build.dump(made.build()) if fmt == "pickle" else json.dumps(made.build()).encode()
    whole = mr.open(data)
    assert whole.devices == (-1, 0, 1)
    snap = mr.open(data, device=-1)
    assert (snap.devices, len(snap.events)) == ((-1,), 0)
    assert snap.replay().measure("requested").peak.bytes == 4000
    assert [row["device"] for row in segments_of(snap)] == [-1]
    assert [row["device"] for row in segments_of(whole)] == [-1, 1]
    assert len(mr.open(data, start=0).events) == 2
    assert mr.open(data, start=0).devices == (-1, 0, 1)


def segments_of(snap: mr.Snapshot) -> list[Row]:
    return read_dump(render_dump(snap, "ndjson")).tables["segments"]
