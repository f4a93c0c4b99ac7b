"""Tests of export/page/making.py: what a page knows, read back slowly."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import memreplay as mr
from memreplay.analysis.groups.dimensions import Dimensions
from memreplay.analysis.moments.annotations import spans
from memreplay.export.page.coding import Coded
from memreplay.export.page.lives import Lives, lives
from memreplay.export.page.making import page_data
from memreplay.export.page.records import PageData
from memreplay.snapshot.model import MEASURES
from tests import build
from tests.build import START_US, SnapshotBuilder
from tests.conftest import SNAPSHOTS
from tests.strategies import traces
from tests.unit.export.page.test_coding import decoded


class Page:
    """The page of a snapshot, and its columns by where they are."""

    def __init__(self, snap: mr.Snapshot) -> None:
        self.data: PageData
        self.data, packed = page_data(snap)
        self.bytes = zlib.decompress(packed)
        assert len(self.bytes) == self.data.bytes

    def column(self, coded: Coded) -> list[int]:
        return decoded(self.bytes, coded)


def check(snap: mr.Snapshot) -> None:
    page = Page(snap)
    functions, files, lines = (
        page.column(one)
        for one in (page.data.frame_function, page.data.frame_file, page.data.frame_line)
    )
    frames, at = page.column(page.data.frames), 0
    for i, length in enumerate(page.column(page.data.stack_frames)):
        stack = [
            (page.data.texts[functions[one]], page.data.texts[files[one]], lines[one])
            for one in frames[at : at + length]
        ]
        assert stack == [(one.function, one.file, one.line) for one in snap.stack(i)]
        at += length
    assert [one.device for one in page.data.devices] == list(snap.devices)
    for device in page.data.devices:
        replay = snap.replay(device.device)
        assert (device.events, device.first_event) == (replay.events, replay.first_event)
        assert device.peaks == {name: replay.measure(name).peak.bytes for name in MEASURES}
        check_lives(page, device, lives(snap, replay, Dimensions(snap)), snap)
        changed = page.column(device.reserved_event), page.column(device.reserved_bytes)
        reserved = [device.reserved_start, *changed[1]]
        assert reserved[0] == replay.measure("reserved").start_bytes
        assert max(reserved) == device.peaks["reserved"]
        assert changed == (
            (replay.segment_changes.event - replay.first_event).tolist(),
            replay.segment_changes.reserved.tolist(),
        )
        found = [(one.name, one.begin, one.start_us, one.end_us) for one in device.spans]
        assert found == [
            (one.name, one.start_event + 1 - replay.first_event, one.start_us, one.end_us)
            for one in spans(snap, replay)
        ]


def check_lives(page: Page, device: Any, those: Lives, snap: mr.Snapshot) -> None:
    columns = {
        name: np.array(page.column(getattr(device.lives, name)), dtype=np.int64)
        for name in device.lives.__struct_fields__
    }
    assert columns["begin"].tolist() == those.begin.tolist()
    assert (columns["begin"] + columns["life"]).tolist() == those.end.tolist()
    assert (columns["begin"] + columns["life"] - columns["lag"]).tolist() == those.let_go.tolist()
    assert columns["requested"].tolist() == those.requested.tolist()
    assert (columns["requested"] + columns["slack"]).tolist() == those.block.tolist()
    assert columns["stack"].tolist() == those.stack.tolist()
    streams = [device.streams[one] for one in columns["stream"]]
    assert streams == [
        None if those.streams[one] is None else str(those.streams[one]) for one in those.stream
    ]
    names = [page.data.categories[one] for one in columns["category"]]
    rules = Dimensions(snap).rules
    assert names == [rules.name(int(one)) for one in those.category]


@given(traces())
def test_what_a_page_knows(snapshot: Any) -> None:
    check(mr.open(build.dump(snapshot)))


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_of_real_snapshots(path: Path) -> None:
    check(mr.open(path))


def test_times_never_fall() -> None:
    made = SnapshotBuilder()
    for at in (30, 10, 20, 50):
        made.event("alloc", 0x1000 * at, 8, time_us=START_US + at)
    page = Page(mr.open(build.dump(made.build())))
    (device,) = page.data.devices
    assert device.first_us == START_US + 30
    assert device.time is not None
    assert page.column(device.time) == [0, 0, 0, 20]


def test_without_times() -> None:
    made = SnapshotBuilder(times=False).alloc(0x1000, 8)
    (device,) = Page(mr.open(build.dump(made.build()))).data.devices
    assert (device.time, device.first_us) == (None, None)


def test_nothing() -> None:
    page = Page(mr.open(build.dump({"segments": [], "device_traces": []})))
    assert (page.data.devices, page.data.bytes) == ((), 0)


def test_pools() -> None:
    made = SnapshotBuilder()
    made.alloc(0x1000, 8, pool_id=(0, 0)).alloc(0x2000, 8, pool_id=(3, 0)).alloc(0x3000, 8)
    page = Page(mr.open(build.dump(made.build())))
    (device,) = page.data.devices
    pools = [device.pools[one] for one in page.column(device.lives.pool)]
    assert pools == [(0, 0), (3, 0), None]
