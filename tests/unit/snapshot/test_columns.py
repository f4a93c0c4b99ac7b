"""columns: each table's fields, dtypes and lengths; a constant column takes no memory."""

from __future__ import annotations

import numpy as np
import pytest

import memreplay as mr
from memreplay.snapshot.columns import Table, view
from tests import build
from tests.build import SnapshotBuilder

DTYPES = {
    "events": {
        "device": "i4",
        "action": "u1",
        "address": "u8",
        "size": "i8",
        "stream": "u8",
        "time_us": "i8",
        "stack": "u4",
        "compile_context": "u4",
        "user_metadata": "u4",
        "pool": "u4",
    },
    "ooms": {"event": "u4", "device_free": "i8"},
    "frames": {
        "file": "u4",
        "function": "u4",
        "line": "i8",
        "fx_node_op": "u4",
        "fx_node_name": "u4",
        "fx_node_target": "u4",
        "fx_original_trace": "u4",
    },
    "segments": {
        "device": "i4",
        "address": "u8",
        "total_size": "i8",
        "allocated_size": "i8",
        "active_size": "i8",
        "requested_size": "i8",
        "has_requested_size": "?",
        "stream": "u8",
        "type": "u4",
        "pool": "u4",
        "stack": "u4",
        "is_expandable": "?",
    },
    "blocks": {
        "segment": "u4",
        "address": "u8",
        "has_address": "?",
        "size": "i8",
        "requested_size": "i8",
        "has_requested_size": "?",
        "state": "u4",
        "stack": "u4",
    },
    "annotations": {"name": "u4", "stage": "u4", "device": "i4", "time_us": "i8"},
}


@pytest.fixture
def snap() -> mr.Snapshot:
    builder = SnapshotBuilder(devices=2, fx=True)
    builder.alloc(0x1000, 10, device=0, frames=[("f", "m.py", 1)])
    builder.alloc(0x2000, 20, device=1, stream=7).oom(512, device_free=99, device=1)
    builder.annotation("step", "START", 5)
    block = builder.block(0x1000, 512, 10, frames=[("f", "m.py", 1)])
    builder.segment(0x1000, 2**21, pool=(3, 0), is_expandable=True, blocks=[block])
    builder.segment(
        0x9000,
        2**20,
        legacy=True,
        blocks=[builder.legacy_block(512, 100), builder.legacy_block(512, 7)],
    )
    del builder.segments[-1]["requested_size"]
    return mr.open(build.dump(builder.build()))


@pytest.mark.parametrize("table", DTYPES)
def test_columns_have_their_dtype_and_length(snap: mr.Snapshot, table: str) -> None:
    rows: Table = getattr(snap, table)
    assert len(rows) > 0
    assert str(len(rows)) in repr(rows)
    for name, dtype in DTYPES[table].items():
        column = getattr(rows, name)
        assert column.dtype == np.dtype(dtype), name
        assert column.shape == (len(rows),), name


def test_columns_have_the_files_values(snap: mr.Snapshot) -> None:
    assert snap.events.device.tolist() == [0, 1, 1]
    assert snap.events.stream.tolist() == [0, 7, 0]
    assert snap.ooms.event.tolist() == [2]
    assert snap.ooms.device_free.tolist() == [99]
    assert snap.segments.is_expandable.tolist() == [True, False]
    assert snap.pool_id(int(snap.segments.pool[0])) == (3, 0)
    assert snap.segments.pool[1] == 2**32 - 1
    assert snap.text(int(snap.segments.type[0])) == "large"
    assert snap.blocks.address.tolist() == [0x1000, 0x9000, 0x9200]
    assert snap.blocks.segment.tolist() == [0, 1, 1]
    assert snap.blocks.has_address.tolist() == [True, False, False]
    assert snap.segments.has_requested_size.tolist() == [True, False]
    assert snap.blocks.requested_size.tolist() == [10, 100, 7]
    assert snap.state_name(int(snap.blocks.state[0])) == "active_allocated"
    assert snap.text(int(snap.annotations.name[0])) == "step"
    assert snap.text(int(snap.annotations.stage[0])) == "START"
    frame = int(snap.frames.file.tolist().index(snap.frames.file.max()))
    assert snap.frame(frame).function == "f"
    assert snap.text(int(snap.frames.fx_node_op[frame]))


def test_stacks_are_offsets_into_frames(snap: mr.Snapshot) -> None:
    stacks = snap.stacks
    assert stacks.offsets.tolist()[0] == 0
    assert len(stacks.offsets) == len(stacks) + 1
    assert stacks.offsets[-1] == len(stacks.frames)
    for i in range(len(stacks)):
        ids = stacks.frames[stacks.offsets[i] : stacks.offsets[i + 1]]
        assert snap.stack(i) == tuple(snap.frame(int(f)) for f in ids)


def test_constant_column_takes_no_memory() -> None:
    column = view(7, 1_000_000, "u8")
    assert column.strides == (0,)
    assert column[999_999] == 7
    assert not column.flags.writeable


def test_tables_of_an_empty_snapshot_are_empty() -> None:
    snap = mr.open(build.dump({"segments": [], "device_traces": []}))
    for table, fields in DTYPES.items():
        for name in fields:
            column = getattr(getattr(snap, table), name)
            assert len(column) == (1 if table == "frames" else 0), (table, name)
