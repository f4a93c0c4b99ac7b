"""Tests of the snapshot and pickle builders."""

from __future__ import annotations

import pickle
import pickletools
import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import bad_files, build, oracle, strategies
from tests.build import SnapshotBuilder
from tests.pickle_ops import Ops

MODEL = ("forward", "model.py", 10)
TRAIN = ("train", "train.py", 20)
# The C and the Python unpickler; the Python one is stricter about frames.
LOADERS = (pickle.loads, pickle._loads)  # type: ignore[attr-defined]


def small() -> build.Snapshot:
    b = SnapshotBuilder(devices=2, start_us=1000)
    b.alloc(0x7F00_0000_0000, 1000, frames=[MODEL, TRAIN], pool_id=(0, 1))
    b.alloc(0x7F00_0010_0000, 70_000, frames=[TRAIN]).free(0x7F00_0010_0000, 70_000, frames=[])
    b.settings(max_split_size=-1, garbage_collection_threshold=0.5, expandable_segments=False)
    return b.annotation("step", "START").finish_segments([(1, 0x1000, 5)]).build()


def names(data: bytes) -> list[str]:
    return [op.name for op, _, _ in pickletools.genops(data)]


def test_built_events_look_like_pytorchs() -> None:
    snapshot = small()
    first, second, requested, completed = snapshot["device_traces"][0]
    assert list(first) == ["action", "addr", "size", "stream", "time_us", "pool_id", "frames"]
    assert first["frames"] == [
        {"filename": "model.py", "line": 10, "name": "forward"},
        {"filename": "train.py", "line": 20, "name": "train"},
    ]
    assert first["frames"][1] is second["frames"][0]  # frames are shared, but lists aren't
    assert [e["time_us"] for e in (first, second, requested, completed)] == [1000, 1001, 1002, 1002]
    assert snapshot["device_traces"][1] == []
    assert list(snapshot) == [
        "segments",
        "device_traces",
        "allocator_settings",
        "external_annotations",
    ]
    assert snapshot["external_annotations"][0]["time_us"] == 1003


def test_options_change_events_and_frames() -> None:
    bare = SnapshotBuilder(times=False, stacks=False).alloc(1, 2, frames=[MODEL], stream=None)
    assert bare.build()["device_traces"] == [[{"action": "alloc", "addr": 1, "size": 2}]]
    rich = SnapshotBuilder(shared_lists=True, fx=True, compile_context="0/0", user_metadata="m")
    one, two = (
        rich.alloc(1, 2, frames=[MODEL]).alloc(2, 2, frames=[MODEL]).build()["device_traces"][0]
    )
    assert one["frames"] is two["frames"]
    assert (one["compile_context"], one["user_metadata"]) == ("0/0", "m")
    assert one["frames"][0]["fx_node_name"] == "forward_1"
    oom = SnapshotBuilder().oom(9, device_free=4).drop("time_us", "stream")
    assert oom.build()["device_traces"] == [[{"action": "oom", "device_free": 4, "size": 9}]]


def test_finish_segments_appends_the_live_set() -> None:
    b = SnapshotBuilder(devices=2).alloc(1024, 10, frames=[MODEL]).alloc(4096, 513)
    b.free_requested(4096, 513).alloc(8192, 1).free(8192, 1)
    segments = b.finish_segments([(1, 2048, 512)]).build()["segments"]
    assert [
        (s["device"], s["address"], s["total_size"], s["requested_size"]) for s in segments
    ] == [
        (0, 1024, 512, 10),
        (0, 4096, 1024, 513),
        (1, 2048, 512, 512),
    ]
    states = [s["blocks"][0]["state"] for s in segments]
    assert states == ["active_allocated", "active_pending_free", "active_allocated"]
    assert segments[0]["blocks"][0]["frames"][0]["name"] == "forward"
    assert [s["allocated_size"] for s in segments] == [512, 0, 512]


@pytest.mark.parametrize("protocol", range(6))
def test_dumps_load_in_every_protocol(protocol: int) -> None:
    assert pickle.loads(build.dump(small(), protocol)) == small()
    assert pickle.loads(build.dump_optimized(small(), protocol)) == small()
    assert pickle.loads(build.dump_unshared(small(), protocol)) == small()


def test_dump_unshared_repeats_every_frame() -> None:
    first, second, *_ = pickle.loads(build.dump_unshared(small()))["device_traces"][0]
    assert first["frames"][1] == second["frames"][0]
    assert first["frames"][1] is not second["frames"][0]


def test_dump_cpp_writes_the_opcodes_of_torchscript() -> None:
    frame = {"line": 1}
    data = build.dump_cpp({"a": [], "b": [frame, frame], "addr": 2**63, "t": (1, 300), "c": -1})
    assert data == b"".join(
        [
            b"\x80\x02}(",
            b"X\x01\x00\x00\x00aq\x00](e",  # even an empty list has a MARK and APPENDS
            b"X\x01\x00\x00\x00bq\x01](",
            b"}(X\x04\x00\x00\x00lineq\x02K\x01uq\x03h\x03e",  # memo after SETITEMS, then GET
            b"X\x04\x00\x00\x00addrq\x04\x8a\x08" + struct.pack("<q", -(2**63)),
            b"X\x01\x00\x00\x00tq\x05K\x01M\x2c\x01\x86",
            b"X\x01\x00\x00\x00cq\x06J\xff\xff\xff\xff",
            b"u.",
        ]
    )


def test_dump_cpp_round_trips_even_with_a_long_memo() -> None:
    many = {f"key {i}": f"key {i}" for i in range(300)}
    assert {"BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"} <= set(names(build.dump_cpp(many)))
    for data in (build.dump_cpp(small()), build.dump_cpp(small(), memoise_all=True)):
        assert pickle.loads(data) == small()
        assert not {"FRAME", "MEMOIZE", "SHORT_BINUNICODE", "LONG_BINPUT"} & set(names(data))
    with pytest.raises(TypeError):
        build.dump_cpp({"x": b"bytes"})


@pytest.mark.parametrize("every", [1, 2, 7, 100, 10**6])
@pytest.mark.parametrize("protocol", [4, 5])
def test_reframe_changes_only_the_frames(every: int, protocol: int) -> None:
    data = build.reframe(build.dump(small(), protocol), every)
    for load in LOADERS:
        assert load(data) == small()
    assert build.unframe(data) == build.unframe(build.dump(small(), protocol))
    if every == 1:
        assert names(data).count("FRAME") == len(names(build.unframe(data))) - 1


def test_shuffle_keys_keeps_content_and_sharing() -> None:
    snapshot = small()
    orders = set()
    for seed in range(10):
        shuffled = build.shuffle_keys(snapshot, random.Random(seed))
        orders.add(tuple(shuffled))
        assert shuffled == snapshot
        first, second, *_ = shuffled["device_traces"][0]
        assert first["frames"][1] is second["frames"][0]
    assert len(orders) > 1


def test_truncated_pickles_cannot_be_loaded() -> None:
    data = build.dump(small())
    prefixes = list(bad_files.truncations(data))
    assert [len(p) for p in prefixes] == list(range(len(data)))
    for prefix in prefixes:
        with pytest.raises((EOFError, pickle.UnpicklingError)):
            oracle.load(prefix)
    assert len(list(bad_files.truncations(data, step=10))) == (len(data) + 9) // 10


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("protocol", [2, 4])
def test_calls_function_is_unsafe_to_load(protocol: int, inside: bool) -> None:
    data = bad_files.calls_function(protocol, inside)
    assert ("GLOBAL" if protocol == 2 else "STACK_GLOBAL") in names(data)
    assert names(data).count("REDUCE") == 1
    with pytest.raises(pickle.UnpicklingError, match=r"os\.system"):
        oracle.load(data)


def test_unsafe_pickles_contain_their_opcode() -> None:
    for name, data in bad_files.unsafe_pickles().items():
        assert name in names(data), name


def test_not_a_snapshot_contains_other_formats() -> None:
    made = bad_files.not_a_snapshot()
    assert pickle.loads(made["list of ints"]) == [1, 2, 3]
    assert made["legacy torch.save"].startswith(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")


def test_ops_assemble_a_pickle() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("a").memoize().integer(2**40).string("b")
    ops.empty_list().get(0).append().mark().integer(-1).strings("x", "y").appends().setitems()
    assert pickle.loads(bytes(ops.stop())) == {"a": 2**40, "b": ["a", -1, "x", "y"]}
    framed = Ops().proto(4).frame(4).empty_dict().put(300).stop()
    assert len(bytes(framed)) == len(framed) == 2 + 9 + 7
    for value in (
        0,
        255,
        256,
        65535,
        65536,
        -1,
        2**31 - 1,
        2**31,
        -(2**31),
        2**63,
        2**64,
        -(2**63),
    ):
        assert pickle.loads(bytes(Ops().proto(2).integer(value).stop())) == value


@given(strategies.traces(), st.sampled_from(range(6)), st.integers(1, 300))
def test_every_writers_output_loads_unchanged(
    snapshot: build.Snapshot, protocol: int, every: int
) -> None:
    def same(data: bytes) -> None:
        assert oracle.load(data) == snapshot

    same(build.dump(snapshot, protocol))
    same(build.dump_optimized(snapshot, protocol))
    same(build.dump_unshared(snapshot, protocol))
    same(build.reframe(build.dump(snapshot, max(protocol, 4)), every))
    same(build.dump(build.shuffle_keys(snapshot, random.Random(every)), protocol))
    for memoise_all in (False, True):
        read: Any = oracle.load(build.dump_cpp(snapshot, memoise_all))
        assert oracle.columns(read) == oracle.columns(snapshot)
        assert oracle.devices(read) == oracle.devices(snapshot)
        for device in oracle.devices(snapshot):
            assert oracle.replay(read, device) == oracle.replay(snapshot, device)
