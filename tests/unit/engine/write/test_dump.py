"""dump: lines are written whole, a chunk at a time, and keep their tables alive."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest

import memreplay as mr
from memreplay.engine.write._dump import dump
from tests import build
from tests.build import SnapshotBuilder
from tests.pickle_ops import Ops

MIB = 1 << 20


def many(events: int) -> mr.Snapshot:
    builder = SnapshotBuilder()
    for i in range(events):
        builder.alloc(i, i, frames=[("f", "a.py", i % 5)])
    return mr.open(build.dump(builder.build()))


@pytest.mark.parametrize("ndjson", [False, True])
def test_chunks_are_bounded_and_end_at_a_line(ndjson: bool) -> None:
    chunks = list(dump(many(40_000).native, ndjson))
    assert len(chunks) > 3
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert all(MIB <= len(chunk) < MIB + 1_000 for chunk in chunks[:-1])
    assert 0 < len(chunks[-1]) < MIB + 1_000
    lines = b"".join(chunks).splitlines()
    assert sum(b"alloc" in line for line in lines) == 40_000


def test_lines_keep_their_tables_alive() -> None:
    lines = dump(many(3).native, True)
    gc.collect()
    rows = [json.loads(line) for line in b"".join(lines).splitlines()]
    assert [row["addr"] for row in rows if row["table"] == "events"] == [0, 1, 2]
    assert list(lines) == []


def test_every_call_starts_over() -> None:
    native = many(3).native
    assert b"".join(dump(native, True)) == b"".join(dump(native, True))


def test_empty_snapshot_has_no_lines() -> None:
    assert list(dump(mr.open(build.dump({"segments": []})).native, True)) == []


def test_lines_cannot_be_created_without_tables() -> None:
    with pytest.raises(TypeError, match=r"use dump"):
        type(dump(many(1).native, True))()


def events(snapshot: Any) -> list[Any]:
    snap = mr.open(snapshot if isinstance(snapshot, bytes) else build.dump(snapshot))
    rows = map(json.loads, b"".join(dump(snap.native, True)).splitlines())
    return [row for row in rows if row["table"] == "events"]


def test_extreme_numbers_are_written_exactly() -> None:
    event = {"action": "oom", "addr": 2**64 - 1, "size": 2**62 - 1, "stream": 2**63}
    event |= {"time_us": -(2**63) + 1, "device_free": -(2**63), "pool_id": (-1, 2**63 - 1)}
    (row,) = events({"device_traces": [[event]]})
    del row["table"], row["event"], row["device"], row["stack"]
    assert row == event | {"pool_id": list(event["pool_id"])}  # type: ignore[call-overload]


def test_missing_fields_are_left_out() -> None:
    (row,) = events({"device_traces": [[{}]]})
    assert row == {
        "table": "events",
        "event": 0,
        "device": 0,
        "addr": 0,
        "size": 0,
        "stream": 0,
        "stack": 0,
    }


def test_unknown_actions_beyond_the_codes_are_named_other() -> None:
    trace = [{"action": f"a{i}"} for i in range(300)]
    found = [row["action"] for row in events({"device_traces": [trace]})]
    assert found[:223] == [f"a{i}" for i in range(223)]
    assert set(found[223:]) == {"other"}


def test_device_free_is_printed_at_its_event() -> None:
    builder = SnapshotBuilder(devices=2)
    for i in range(6):
        builder.oom(i, i * 10, device=i % 2).alloc(i, i, device=i % 2)
    found = events(builder.build())
    assert [row.get("device_free") for row in found] == [
        0, None, 20, None, 40, None, 10, None, 30, None, 50, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value", ["", "\0", "\0[1]", {"ü": "😀\x7f\n"}, ["\ud800"], {}, [], 7, 2.5, True, 2**64 - 1]
)
def test_any_metadata_is_written(value: Any) -> None:
    (row,) = events({"device_traces": [[{"user_metadata": value, "compile_context": value}]]})
    assert row["user_metadata"] == row["compile_context"] == value


def test_frames_are_formatted_once() -> None:
    stack = [("f", "a.py", 1), ("f", "a.py", 1), ("g", "a.py", 2)]
    builder = SnapshotBuilder().alloc(1, 1, frames=stack).alloc(2, 1, frames=stack[1:])
    builder.alloc(3, 1, frames=stack)
    text = b"".join(dump(mr.open(build.dump(builder.build())).native, True)).decode()
    assert [json.loads(line)["table"] for line in text.splitlines()] == (
        ["traces", "frames", "frames", "stacks", "events", "stacks", "events", "events"]
    )


def test_terminal_escapes_in_names_are_escaped() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("device_traces").empty_list().empty_list()
    ops.mark().empty_dict().mark().string("action").string("\x1b[2J\u202e\x9b")
    data = bytes(ops.setitems().appends().append().setitems().stop())
    text = b"".join(dump(mr.open(data).native, False))
    assert rb'action="\u001b[2J\u202e\u009b"' in text
