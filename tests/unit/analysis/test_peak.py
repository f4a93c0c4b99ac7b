"""peak: groups and their labels, what has no stack, and totals that always add up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import memreplay as mr
from memreplay.analysis.peak import BEFORE_RECORDING, NO_EVENTS, NO_STACK, peak_report
from memreplay.model import By, Frame
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.strategies import traces

TORCH = "/v/lib/python3.12/site-packages/torch/nn/functional.py"
USER = ("forward", "model.py", 7)
DEEP = [("torch::unwind::unwind()", "??", 0), ("linear", TORCH, 9), USER, ("main", "t.py", 1)]
GRAD = [
    ("torch::unwind::unwind()", "??", 0),
    ("at::native::mm(at::Tensor)", "LinearAlgebra.cpp", 0),
    ("torch::autograd::generated::MmBackward0::apply()", "??", 0),
    ("start_thread", "??", 0),
]


def snap_of(builder: SnapshotBuilder) -> mr.Snapshot:
    return mr.open(build.dump(builder.build()))


def labels(snap: mr.Snapshot, by: By) -> list[tuple[str, int, int]]:
    (device,) = peak_report(snap, by=by).devices
    return [(g.label, g.bytes, g.count) for g in device.groups]


def mixed() -> mr.Snapshot:
    builder = SnapshotBuilder()
    builder.alloc(1, 100, frames=DEEP).alloc(2, 10, frames=DEEP[1:])
    builder.alloc(3, 40, frames=GRAD).alloc(4, 5)
    return snap_of(builder.finish_segments(extra_live=[(0, 5, 3)]))


def test_by_stack() -> None:
    assert labels(mixed(), "stack") == [
        ("forward model.py:7", 100, 1),
        ("torch::autograd::generated::MmBackward0::apply()", 40, 1),
        ("forward model.py:7", 10, 1),
        (NO_STACK, 5, 1),
        (BEFORE_RECORDING, 3, 1),
    ]


def test_stacks_come_whole_with_the_users_frames_marked() -> None:
    (device,) = peak_report(mixed()).devices
    assert device.groups[0].frames == tuple(Frame(*f) for f in DEEP)
    assert device.groups[0].user == (2, 3)
    assert device.groups[1].user == ()
    assert device.groups[3].frames == ()


def test_by_frame() -> None:
    assert labels(mixed(), "frame")[:2] == [
        ("forward model.py:7", 110, 2),
        ("torch::autograd::generated::MmBackward0::apply()", 40, 1),
    ]


def test_by_file_and_by_function() -> None:
    assert labels(mixed(), "file")[:2] == [("model.py", 110, 2), ("??", 40, 1)]
    assert labels(mixed(), "function")[0] == ("forward", 110, 2)
    (device,) = peak_report(mixed(), by="file").devices
    assert device.groups[0].frames == (Frame("", "model.py", 0),)
    (device,) = peak_report(mixed(), by="function").devices
    assert device.groups[0].frames == (Frame("forward", "", 0),)


def test_the_baseline_and_its_share() -> None:
    builder = SnapshotBuilder().free(9, 50).alloc(1, 100).free(1, 100)
    (device,) = peak_report(snap_of(builder.finish_segments(extra_live=[(0, 5, 3)]))).devices
    assert device.baseline_bytes == 53
    assert device.baseline_held_bytes == 3
    assert device.peak_bytes == 103
    assert device.final_bytes == 3
    assert device.live_count == 2


def test_top_cuts_and_the_rest_is_told() -> None:
    (device,) = peak_report(mixed(), top=2).devices
    assert [g.bytes for g in device.groups] == [100, 40]
    assert (device.groups_total, device.rest_bytes, device.rest_count) == (5, 18, 3)


def test_without_events_the_label_says_so() -> None:
    builder = SnapshotBuilder()
    builder.segment(1, 2**20, blocks=[builder.block(1, 512, 9)])
    assert labels(snap_of(builder), "stack") == [(NO_EVENTS, 9, 1)]


def test_one_device_or_all() -> None:
    snap = snap_of(SnapshotBuilder(devices=3).alloc(1, 1, device=0).alloc(1, 2, device=2))
    assert [d.device for d in peak_report(snap).devices] == [0, 2]
    assert [d.peak_bytes for d in peak_report(snap, device=2).devices] == [2]
    with pytest.raises(mr.UsageError):
        peak_report(snap, device=1)


@given(snapshot=traces())
def test_groups_always_add_up(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    kinds: tuple[By, ...] = ("stack", "frame", "file", "function")
    for by in kinds:
        for top in (0, 2):
            for device in peak_report(snap, by=by, top=top).devices:
                want = oracle.replay(snapshot, device.device)
                shown = sum(g.bytes for g in device.groups)
                assert shown + device.rest_bytes == device.peak_bytes == want.peak_bytes
                count = sum(g.count for g in device.groups) + device.rest_count
                assert count == device.live_count == len(want.live_at(want.event_index))
                assert sum(g.share for g in device.groups) <= 1 + 1e-9
