"""pickling: a slice is written as by Python's pickler, with each string, frame and stack once."""

from __future__ import annotations

import gc
import json
import pickle
import pickletools
from array import array
from collections import Counter
from typing import Any

import pytest
from hypothesis import given

import memreplay as mr
from memreplay.engine.write._dump import dump
from memreplay.engine.write._slicing import Excerpt, Pickled, Stripped
from memreplay.export.snapshots.cutting import cut
from tests import build, pickle_ops
from tests.build import SnapshotBuilder
from tests.strategies import traces

F = [("f", "a.py", 1), ("g", "b.py", 2)]
MIB = 1 << 20


def sliced(snapshot: Any) -> bytes:
    snap = mr.open(snapshot if isinstance(snapshot, bytes) else build.dump(snapshot))
    return b"".join(cut(snap)[1])


def loads(data: bytes) -> Any:
    """Read the data with Python's slow unpickler, which checks opcodes against their frames."""
    return pickle._loads(data)  # type: ignore[attr-defined]


def rows(snap: mr.Snapshot) -> list[Any]:
    """Return all rows, without a table's internal numbers and optional data."""
    found = [json.loads(line) for line in b"".join(dump(snap.native, True)).splitlines()]
    for row in found:
        row.pop("address_given", None)
        if "real_size" in row:
            row["requested_size"] = row.pop("real_size")
    return found


def event(**fields: Any) -> Any:
    """Return the only event of a snapshot after a round trip."""
    snapshot = {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1} | fields]]}
    (found,) = loads(sliced(snapshot))["device_traces"][0]
    return found


@given(snapshot=traces(max_events=25))
def test_slice_of_any_snapshot_reads_back_the_same(snapshot: Any) -> None:
    snap = mr.open(build.dump(snapshot))
    data = b"".join(cut(snap)[1])
    assert data == b"".join(cut(snap)[1])
    found = loads(data)
    assert pickle.loads(data) == found
    again = sliced(data)
    assert again == data
    # A pickle by Python's own pickler reads back as the same.
    assert rows(mr.open(pickle.dumps(found))) == rows(mr.open(data))
    mine, theirs = rows(mr.open(data)), rows(snap)
    for table in ("events", "annotations"):
        ours = [strip_ids(row) for row in mine if row["table"] == table]
        assert ours == [strip_ids(row) for row in theirs if row["table"] == table]


def strip_ids(row: Any) -> Any:
    return {key: value for key, value in row.items() if key not in ("stack", "event")}


INTEGERS = [0, 1, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32, 2**39, 2**40, 2**47 - 1, 2**47]
INTEGERS += [2**55 - 1, 2**55, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("number", INTEGERS)
def test_integers_match_python(number: int) -> None:
    assert event(addr=number)["addr"] == number
    made = sliced({"segments": [], "device_traces": [[{"action": "alloc", "addr": number}]]})
    ops = [(op.name, arg) for op, arg, _ in pickletools.genops(made)]
    ours = ops[ops.index(("SHORT_BINUNICODE", "addr")) + 2]
    theirs = [(op.name, arg) for op, arg, _ in pickletools.genops(pickle.dumps(number, 4))]
    assert ours in theirs


@pytest.mark.parametrize(
    "time", [0, 1, -1, -128, -129, -(2**31), -(2**31) - 1, -(2**63) + 1, 2**62]
)
def test_times_are_written_like_python(time: int) -> None:
    assert event(time_us=time)["time_us"] == time
    made = sliced({"segments": [], "device_traces": [[{"action": "alloc", "time_us": time}]]})
    ops = [(op.name, arg) for op, arg, _ in pickletools.genops(made)]
    ours = ops[ops.index(("SHORT_BINUNICODE", "time_us")) + 2]
    assert ours in [(op.name, arg) for op, arg, _ in pickletools.genops(pickle.dumps(time, 4))]


@pytest.mark.parametrize("pool", [(0, 0), (0, 1), (-(2**63), 2**63 - 1), (-1, -(2**40))])
def test_pools_are_tuples(pool: Any) -> None:
    found = event(pool_id=pool)["pool_id"]
    assert found == pool
    assert type(found) is tuple
    assert "pool_id" not in event()


METADATA = ["", "x", "é😀", "\0x", 5, -1, 1.5, None, True, [], {}, {"a": [1, {"b": None}]}]


@pytest.mark.parametrize("value", METADATA)
def test_metadata_round_trips(value: Any) -> None:
    for key in ("user_metadata", "compile_context"):
        found = event(**{key: value})
        assert repr(found[key]) == repr(value) if value is not None else found.get(key) is None


def test_actions_round_trip() -> None:
    names = [*("alloc", "snapshot", "oom", "empty_cache", "é", "", "x" * 300)]
    trace = [{"action": name} for name in names] + [{"addr": 5}]
    found = loads(sliced({"segments": [], "device_traces": [trace]}))["device_traces"][0]
    assert [one.get("action") for one in found] == [*names, None]
    many = [{"action": f"a{i}"} for i in range(300)]
    found = loads(sliced({"segments": [], "device_traces": [many]}))["device_traces"][0]
    assert [one["action"] for one in found] == [f"a{i}" for i in range(223)] + ["other"] * 77


def test_oom_has_no_address() -> None:
    builder = SnapshotBuilder().alloc(1, 1).oom(5, 1 << 40).oom(6, -1).alloc(2, 1)
    found = loads(sliced(builder.build()))["device_traces"][0]
    assert [one.get("device_free") for one in found] == [None, 1 << 40, -1, None]
    assert ["addr" in one for one in found] == [True, False, False, True]
    both = event(action="oom", addr=7, device_free=9)
    assert (both["addr"], both["device_free"]) == (7, 9)


@pytest.mark.parametrize("state", ["inactive", "active_allocated", "active_pending_free", "odd"])
def test_block_states_round_trip(state: str) -> None:
    block = SnapshotBuilder().block(4096, 512, 100, state)
    segment = SnapshotBuilder().segment(4096, 512, blocks=[block]).build()["segments"]
    found = loads(sliced({"segments": segment, "device_traces": [[]]}))
    # An unknown state counts as active.
    want = "active_allocated" if state == "odd" else state
    assert found["segments"][0]["blocks"][0]["state"] == want


def test_invalid_text_is_written_as_it_was_read() -> None:
    raw = b"\xff\xed\xa0"
    ops = pickle_ops.Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    ops.string("device_traces").empty_list().empty_list().empty_dict().mark().string("action")
    ops.op("SHORT_BINSTRING", bytes([len(raw)]) + raw).setitems().append().append()
    data = bytes(ops.setitems().stop())
    name = mr.open(data).action_name(32)
    assert loads(sliced(data))["device_traces"][0][0]["action"] == name
    assert name is not None
    assert "\ufffd" in name
    for text in ("\ud800", "a\udfffb", "é" * 128, "x" * 255, "x" * 256, "\0"):
        assert event(action=text)["action"] == text


def test_everything_is_written_once() -> None:
    builder = SnapshotBuilder(fx=True)
    for i in range(600):
        frames = [(f"f{i % 300}", "a.py", i % 300), ("g", "b.py", 2)]
        builder.alloc(i * 512, 1, frames=frames, pool_id=(0, i % 2), user_metadata=f"m{i % 3}")
    data = sliced(builder.finish_segments().build())
    counts = Counter(
        arg for op, arg, _ in pickletools.genops(data) if "UNICODE" in op.name
    )  # fmt: skip
    assert set(counts.values()) == {1}
    ops = Counter(op.name for op, _, _ in pickletools.genops(data))
    assert ops["TUPLE2"] == 2
    assert ops["LONG_BINGET"] > 0
    found = loads(data)["device_traces"][0]
    assert found[0]["frames"] is found[300]["frames"]
    assert found[0]["frames"][1] is found[1]["frames"][1]
    assert found[0]["pool_id"] is found[2]["pool_id"]
    assert len({id(one["frames"]) for one in found}) == 300
    fx = {key for key in found[0]["frames"][0] if key.startswith("fx_")}
    assert fx == {
        key for key in builder.build()["device_traces"][0][0]["frames"][0] if key[:2] == "fx"
    }


@pytest.mark.parametrize("n", [0, 1, 999, 1_000, 1_001, 2_000])
def test_a_thousand_items_are_appended_at_a_time(n: int) -> None:
    frame = {"name": "f", "filename": "a.py", "line": 1}
    block = {"address": 0, "size": 1, "requested_size": 1, "state": "inactive", "frames": []}
    note = {"stage": "START", "name": "x", "device": 0, "time_us": 5}
    segment = SnapshotBuilder().segment(4096, n, blocks=[block] * n).build()["segments"][0]
    lists = {
        "frames": {"segments": [], "device_traces": [[{"action": "alloc", "frames": [frame] * n}]]},
        "events": {"segments": [], "device_traces": [[{"action": "alloc"}] * n]},
        "blocks": {"segments": [segment], "device_traces": [[]]},
        "segments": {"segments": [segment | {"blocks": []}] * n, "device_traces": [[]]},
        "notes": {"segments": [], "device_traces": [[]], "external_annotations": [note] * n},
    }
    for snapshot in lists.values():
        data = sliced(pickle.dumps(snapshot, 4) if n < 2 else build.dump_unshared(snapshot))
        found = loads(data)
        batches = batch_sizes(data)
        assert max(batches, default=0) <= 1_000
        assert len(found.get("external_annotations", [])) in (0, n)
        sizes = [len(found["segments"]), sum(len(s["blocks"]) for s in found["segments"])]
        sizes += [len(t) for t in found["device_traces"]]
        sizes += [len(e.get("frames", [])) for t in found["device_traces"] for e in t[:1]]
        assert n in (*sizes, len(found.get("external_annotations", [])))
        if n >= 1_000:
            assert 1_000 in batches


def batch_sizes(data: bytes) -> list[int]:
    """Return the number of items that each APPENDS appends."""
    found, depth = [], [0]
    for op, _, _ in pickletools.genops(data):
        if op.name == "MARK":
            depth.append(0)
        elif op.name == "APPENDS":
            found.append(depth.pop())
        elif op.name in ("SETITEMS", "TUPLE"):
            depth.pop()
        elif op.name in ("EMPTY_DICT", "EMPTY_LIST", "BINGET", "LONG_BINGET"):
            depth[-1] += 1
    return found


@pytest.mark.slow
def test_frames_and_chunks_have_a_bounded_size() -> None:
    builder = SnapshotBuilder()
    for i in range(50_000):
        builder.alloc(i, i, frames=[("f", "a.py", i)])
    snap = mr.open(build.dump(builder.build()))
    chunks = list(cut(snap)[1])
    assert len(chunks) > 2
    assert all(MIB <= len(chunk) < MIB + 100_000 for chunk in chunks[:-1])
    data = b"".join(chunks)
    assert data[:2] == b"\x80\x04"
    sizes, at = [], 2
    while at < len(data):
        assert data[at] == 0x95
        sizes.append(int.from_bytes(data[at + 1 : at + 9], "little"))
        at += 9 + sizes[-1]
    assert at == len(data)
    assert all((64 << 10) - 9 <= n < 66_000 for n in sizes[:-1])
    assert len(loads(data)["device_traces"][0]) == 50_000


def test_missing_devices_have_empty_traces() -> None:
    builder = SnapshotBuilder(devices=4).alloc(1, 1, device=2)
    snap = mr.open(build.dump(builder.build()), device=2)
    assert [len(trace) for trace in loads(b"".join(cut(snap)[1]))["device_traces"]] == [0, 0, 1, 0]


def made(snap: mr.Snapshot, values: Any = (), notes: Any = (), stripped: Any = None) -> Pickled:
    excerpts = [
        Excerpt(snap.replay(device).holding, None, None, stripped, 0) for device in snap.devices
    ]
    return Pickled(snap.native, excerpts, stripped, array("I", notes), list(values), 1)


def test_other_values_are_written_if_they_are_json() -> None:
    snap = mr.open(build.dump(SnapshotBuilder().alloc(1, 1).build()))
    values = [("a", '{"b": [1, "x", null]}'), ("\ud800é", "-5"), ("c", "1.5")]
    found = loads(b"".join(made(snap, values)))
    assert {key: found[key] for key in list(found)[-3:]} == {
        "a": {"b": [1, "x", None]},
        "\ud800é": -5,
        "c": 1.5,
    }
    # Values that aren't JSON are left out.
    assert loads(b"".join(made(snap, [("a", "{"), ("b", "1")])))["a"] is None


def test_annotations_are_chosen_by_row() -> None:
    builder = SnapshotBuilder().alloc(1, 1)
    for name in "abc":
        builder.annotation(name, "START")
    snap = mr.open(build.dump(builder.build()))
    found = loads(b"".join(made(snap, notes=[2, 0])))["external_annotations"]
    assert [note["name"] for note in found] == ["c", "a"]
    assert loads(b"".join(made(snap)))["external_annotations"] == []
    with pytest.raises(IndexError):
        made(snap, notes=[3])


def test_excerpts_of_another_snapshot_are_refused() -> None:
    one, other = (mr.open(build.dump(SnapshotBuilder().alloc(1, 1).build())) for _ in range(2))
    stripped = Stripped(one.native, None)
    excerpt = Excerpt(one.replay().holding, None, None, None, 0)
    for native, without in ((other.native, None), (one.native, stripped)):
        with pytest.raises(ValueError, match="an excerpt belongs to another snapshot"):
            Pickled(native, [excerpt], without, array("I"), [], 1)


def test_pickle_keeps_its_tables_alive() -> None:
    data = build.dump(SnapshotBuilder().alloc(1, 5, frames=F).build())
    pickled = made(mr.open(data))
    gc.collect()
    assert loads(b"".join(pickled))["device_traces"][0][0]["size"] == 5
    assert list(pickled) == []
