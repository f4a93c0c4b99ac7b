"""trust: each reason has a snapshot that gives it, and a clean one has none."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.trust import overflowed, verdict
from tests import build
from tests.build import SnapshotBuilder


def reasons(builder: SnapshotBuilder, device: int = 0) -> tuple[str, ...]:
    snap = mr.open(build.dump(builder.build()))
    found = verdict(snap, snap.replay(device))
    assert found.trusted == (not found.reasons)
    return found.reasons


def test_a_clean_snapshot_is_trusted() -> None:
    assert reasons(SnapshotBuilder().alloc(1, 9).finish_segments()) == ()


def test_no_events() -> None:
    builder = SnapshotBuilder()
    assert reasons(builder.segment(1, 512, blocks=[builder.block(1, 512, 5)])) == ("no_events",)


def test_no_segments() -> None:
    assert reasons(SnapshotBuilder().alloc(1, 9)) == ("no_segments",)
    # Everything given back: there is nothing that segments could add.
    assert reasons(SnapshotBuilder().alloc(1, 9).free(1, 9)) == ()
    without = {"device_traces": SnapshotBuilder().alloc(1, 9).free(1, 9).build()["device_traces"]}
    snap = mr.open(build.dump(without))
    assert verdict(snap, snap.replay(0)).reasons == ("no_segments",)


def test_segments_disagree() -> None:
    builder = SnapshotBuilder().alloc(1, 9)
    builder.segment(1, 512, blocks=[builder.block(1, 512, 9, "inactive")])
    assert reasons(builder) == ("segments_disagree",)


def test_truncated() -> None:
    builder = SnapshotBuilder().alloc(1, 9).alloc(2, 9).alloc(3, 9)
    data = build.dump(builder.finish_segments().build())
    snap = mr.open(data[:-40], salvage=True)
    assert verdict(snap, snap.replay(0)).reasons == ("truncated",)


def test_unmatched_frees_double_allocs_and_sizes() -> None:
    builder = SnapshotBuilder().alloc(1, 9).free(1, 9).free_completed(1, 9)
    assert reasons(builder.finish_segments()) == ("unmatched_frees",)
    builder = SnapshotBuilder().alloc(1, 9).alloc(1, 9)
    assert reasons(builder.finish_segments()) == ("double_allocs",)
    builder = SnapshotBuilder().alloc(1, 9).free_completed(1, 8)
    builder.segment(1, 512, blocks=[builder.block(1, 512, 9, "inactive")])
    assert reasons(builder) == ("size_mismatches",)


def test_no_requested_sizes() -> None:
    builder = SnapshotBuilder().alloc(1, 512)
    block = builder.block(1, 512, 512)
    del block["requested_size"]
    assert reasons(builder.segment(1, 2**20, blocks=[block])) == ("no_requested_sizes",)


@pytest.mark.parametrize(
    "top, settings, expected",
    [
        ({}, {}, None),
        ({"trace_alloc_overflowed": True}, {}, True),
        ({"trace_alloc_overflowed": False}, {}, False),
        ({"trace_alloc_overflowed": [False, True]}, {}, True),
        ({}, {"trace_alloc_overflowed": True}, True),
        ({"trace_alloc_max_entries": 2}, {}, True),
        ({"trace_alloc_max_entries": 3}, {}, False),
        ({"trace_alloc_max_entries": [9, 9]}, {}, False),
        ({}, {"trace_alloc_max_entries": 2}, True),
        ({"trace_alloc_max_entries": "many"}, {}, None),
        ({"trace_alloc_overflowed": False, "trace_alloc_max_entries": 1}, {}, False),
    ],
)
def test_ring_overflow(
    top: dict[str, Any], settings: dict[str, Any], expected: bool | None
) -> None:
    builder = SnapshotBuilder(devices=2).alloc(1, 9).alloc(2, 9)
    for key, value in top.items():
        builder.top(key, value)
    if settings:
        builder.settings(**settings)
    snap = mr.open(build.dump(builder.finish_segments().build()))
    assert overflowed(snap) is expected


def test_ring_overflow_of_one_device() -> None:
    builder = SnapshotBuilder(devices=2).alloc(1, 9, device=0).alloc(2, 9, device=1)
    builder.top("trace_alloc_overflowed", [False, True])
    snap = mr.open(build.dump(builder.finish_segments().build()))
    assert verdict(snap, snap.replay(0)).reasons == ()
    assert verdict(snap, snap.replay(1)).reasons == ("ring_overflow",)


def test_a_device_that_did_nothing_while_others_did() -> None:
    builder = SnapshotBuilder(devices=2).alloc(1, 9, device=0).finish_segments()
    builder.segment(4096, 2**20, device=1, blocks=[builder.block(4096, 512, 300)])
    assert reasons(builder, device=1) == ()


def test_a_trace_without_allocations_is_a_remark() -> None:
    builder = SnapshotBuilder().free(1, 9)
    snap = mr.open(build.dump(builder.finish_segments().build()))
    found = verdict(snap, snap.replay(0))
    assert found.reasons == ("no_allocations",)
    assert found.trusted
