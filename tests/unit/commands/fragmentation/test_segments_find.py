"""Tests of commands/fragmentation/segments_find.py."""

from __future__ import annotations

import pytest

import memreplay as mr
from memreplay.commands.fragmentation.segments_find import segments_report
from memreplay.snapshot.model import Frame
from tests import allocator_strategies, build
from tests.build import FrameSpec, SnapshotBuilder

A, MIB = 0x10000000, 1 << 20
USER: list[FrameSpec] = [("train", "/home/ana/train.py", 7)]


def held(made: SnapshotBuilder, address: int, size: int) -> SnapshotBuilder:
    """Add a segment that is entirely free at the end."""
    return made.segment(address, size, blocks=[made.block(address, size, 0, "inactive")])


def builder() -> SnapshotBuilder:
    made = SnapshotBuilder()
    made.event("segment_alloc", A, 20 * MIB, frames=USER)
    made.event("segment_alloc", A + 64 * MIB, 2 * MIB)
    made.event("segment_free", A, 20 * MIB)
    return held(held(made, A + 64 * MIB, 2 * MIB), A + 128 * MIB, 4 * MIB)


def test_numbers_match_those_worked_out_by_hand() -> None:
    (device,) = segments_report(mr.open(build.dump(builder().build()))).devices
    assert (device.start_segments, device.start_bytes) == (1, 4 * MIB)
    assert (device.peak_bytes, device.peak_event) == (26 * MIB, 1)
    assert device.end_bytes == 6 * MIB
    assert device.actions == {"segment_alloc": 2, "segment_free": 1}
    assert (device.exactness, device.trusted) == ("exact", True)
    first, second, third = device.largest
    assert (first.event_index, first.action, first.bytes) == (0, "segment_alloc", 20 * MIB)
    assert first.frame == Frame("train", "/home/ana/train.py", 7)
    assert (second.bytes, second.reserved_bytes, second.frame) == (2 * MIB, 26 * MIB, None)
    assert (third.bytes, third.reserved_bytes, third.address) == (-20 * MIB, 6 * MIB, A)


def test_largest_segments_are_in_trace_order() -> None:
    (device,) = segments_report(mr.open(build.dump(builder().build())), top=2).devices
    assert [change.event_index for change in device.largest] == [0, 2]
    assert len(device.changes) == 3


@pytest.mark.parametrize("seed", range(12))
def test_series_matches_the_allocator(seed: int) -> None:
    settings = ("default", "expandable")[seed % 2]
    made = allocator_strategies.record(seed, settings=settings, steps=150, late=seed % 3 * 30)
    snap = mr.open(build.dump(made.snapshot))
    (device,) = segments_report(snap, top=0).devices
    (truth,) = made.truths
    series = truth.series("reserved")
    assert device.start_bytes == truth.start_of("reserved")
    assert device.peak_bytes == max([device.start_bytes, *series])
    changes = device.changes
    assert changes.reserved_bytes == [series[event] for event in changes.event_index]
    assert len(device.largest) == len(changes)
    for groups, some in (
        (device.reserved_by, [n for n in changes.bytes if n > 0]),
        (device.released_by, [-n for n in changes.bytes if n < 0]),
    ):
        assert sum(one.bytes for one in groups) == sum(some)
        assert sum(one.count for one in groups) == len(some)
    assert sum(one.bytes for one in device.at_peak) == device.peak_bytes


def test_changes_are_grouped_by_call_site() -> None:
    made = SnapshotBuilder()
    for i, line in enumerate((7, 8, 7)):
        frames = [("empty", "/x/torch/functional.py", i), ("train", "/home/ana/train.py", line)]
        made.event("segment_alloc", A + (i << 26), (i + 1) * MIB, frames=frames)
    made.event("segment_free", A, 1 * MIB, frames=[("clean", "/home/ana/train.py", 9)])
    (device,) = segments_report(mr.open(build.dump(made.build()))).devices
    first, second = device.reserved_by
    assert first.frame == Frame("train", "/home/ana/train.py", 7)
    assert (first.bytes, first.count, first.least_bytes, first.most_bytes) == (
        4 * MIB,
        2,
        1 * MIB,
        3 * MIB,
    )
    assert (first.first_event, first.last_event, first.is_user) == (0, 2, True)
    assert first.frames[0].line == 2
    assert (second.bytes, second.first_event, second.last_event) == (2 * MIB, 1, 1)
    (back,) = device.released_by
    assert back.frame == Frame("clean", "/home/ana/train.py", 9)
    assert [(one.label, one.bytes, one.count) for one in device.at_peak] == [
        ("train /home/ana/train.py:7", 4 * MIB, 2),
        ("train /home/ana/train.py:8", 2 * MIB, 1),
    ]
