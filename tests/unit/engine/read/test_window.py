"""window: reading a range of events, and unusual bounds."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import memreplay as mr
from memreplay.snapshot.model import Moment
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.pickle_ops import Ops

A, B = 0x1000, 0x2000


def data(times: tuple[int, ...] = (100, 200, 300)) -> bytes:
    builder = SnapshotBuilder()
    for i, time in enumerate(times):
        builder.alloc(A + i, 1 << i, time_us=time)
    return build.dump(builder.build())


def test_empty_range_keeps_its_position() -> None:
    replay = mr.open(data(), start=1, stop=1).replay()
    assert (replay.events, replay.first_event, replay.start) == (0, 1, 0)
    assert replay.peak.event_index == 0
    assert replay.carried_over_bytes == 1
    behind = mr.open(data(), start=9).replay()
    assert (behind.events, behind.first_event, behind.carried_over_bytes) == (0, 3, 7)


@pytest.mark.parametrize("end", ["in the range", "after it", "never"])
def test_range_knows_that_a_free_was_requested_earlier(end: str) -> None:
    builder = SnapshotBuilder().free_requested(B, 7).alloc(A, 1).free_requested(B, 7)
    if end == "in the range":
        builder.free_completed(B, 7)
    builder.alloc(A + 1, 2)
    if end == "after it":
        builder.free_completed(B, 7)
    if end == "never":
        builder.finish_segments([(0, B, 7)])
    dumped = build.dump(builder.build())
    whole, part = mr.open(dumped).replay(), mr.open(dumped, start=1, stop=4).replay()
    for measure in ("requested", "held"):
        usage, ranged = whole.measure(measure), part.measure(measure)
        assert ranged.series.tolist() == usage.series.tolist()[1:4]
        assert ranged.start_bytes == usage.series[0]
    assert (part.carried_over_bytes, part.measure("held").start_bytes) == (7, 0)


def test_elapsed_times_do_not_overflow() -> None:
    snap = mr.open(data((-(2**62) - 9, 2**62 + 9)), start=Moment("elapsed", 1))
    assert snap.replay().events == 1
    snap = mr.open(data((2**62 + 9, -(2**62) - 9)), start=Moment("elapsed", 1))
    assert snap.replay().events == 0


@pytest.mark.parametrize("far", [2**63, 2**70])
def test_moments_beyond_64_bits_are_after_everything(far: int) -> None:
    for bound in (far, Moment("time", far), Moment("elapsed", far)):
        assert mr.open(data(), start=bound).replay().events == 0
        assert mr.open(data(), stop=bound).replay().events == 3


def test_invalid_bounds_are_rejected() -> None:
    with pytest.raises(TypeError):
        mr.open(data(), start=1.5)  # type: ignore[arg-type]
    with pytest.raises(mr.UsageError, match="unknown kind of moment"):
        mr.open(data(), start=Moment("x", 1))  # type: ignore[arg-type]


def test_missing_times_on_another_device_do_not_matter() -> None:
    builder = SnapshotBuilder(devices=2).alloc(A, 1, device=0).alloc(B, 2, device=1)
    builder.drop("time_us")
    dumped = build.dump(builder.build())
    assert mr.open(dumped, device=0, start=Moment("elapsed", 0)).replay(0).events == 1
    with pytest.raises(mr.UsageError, match="has no times"):
        mr.open(dumped, device=1, start=Moment("elapsed", 0))


def test_device_is_found_after_shared_empty_lists() -> None:
    empty: list[Any] = []
    events = SnapshotBuilder().alloc(A, 1).alloc(B, 2).alloc(A + 1, 4).build()["device_traces"][0]
    whole = {"segments": [], "device_traces": [empty, empty, events, empty]}
    for dumped in (pickle.dumps(whole, 4), build.dump_cpp(whole)):
        assert mr.open(dumped).devices == (2,)
        assert mr.open(dumped, device=2).replay(2).usage.tolist() == [1, 3, 7]
        cut = mr.open(dumped[:-12], salvage=True)
        assert cut.devices == (2,)


def test_shared_trace_filled_later_is_refused() -> None:
    ops = Ops().proto(2).empty_dict().string("device_traces").empty_list()
    ops.empty_list().put(50).append().get(50).append().get(50).mark()
    ops.empty_dict().string("size").integer(5).setitem().appends().op("POP").setitem().stop()
    assert oracle.load(bytes(ops))
    with pytest.raises(mr.SnapshotError, match="changes after its use"):
        mr.open(bytes(ops))


def test_rejected_files_do_not_leak_a_window() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("device_traces").empty_list().mark()
    dumped = bytes(ops.raw(b"]" * 1025).appends().setitems().stop())
    for _ in range(3):
        with pytest.raises(mr.LimitError, match="devices is 1025"):
            mr.open(dumped, start=0)
