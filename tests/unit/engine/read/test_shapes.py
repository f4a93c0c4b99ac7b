"""shapes: keys in any order, unknown keys, files of every PyTorch version, and values of the wrong
type.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import memreplay as mr
from tests import build
from tests.build import SnapshotBuilder
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops

EVENT = {"action": "alloc", "addr": 4096, "size": 100}
FRAME = {"filename": "a.py", "line": 3, "name": "f"}
BLOCK = {"address": 4096, "size": 512, "requested_size": 100, "state": "active_allocated"}


def of_event(**fields: Any) -> dict[str, Any]:
    return {"segments": [], "device_traces": [[{**EVENT, **fields}]]}


def of_segment(**fields: Any) -> dict[str, Any]:
    segment = {"device": 0, "address": 4096, "total_size": 512, "blocks": [BLOCK]}
    return {"segments": [{**segment, **fields}], "device_traces": []}


def read(snapshot: Any, protocol: int = 4) -> mr.Snapshot:
    return assert_like_oracle(build.dump(snapshot, protocol), snapshot)


def full() -> Any:
    builder = SnapshotBuilder(2, compile_context="0/1", user_metadata={"a": "b"}, fx=True)
    for device in range(2):
        builder.alloc(4096, 100, device, frames=[("f", "a.py", 1)], pool_id=(1, 2), stream=9)
        builder.free_completed(4096, 100, device, frames=[("f", "a.py", 1)])
        builder.oom(50, 7, device).snapshot_event(3, device)
    builder.annotation("step", "START").annotation("step", "END").settings(expandable_segments=True)
    builder.segment(
        2**40,
        1024,
        1,
        stream=5,
        segment_type="small",
        pool=(0, 3),
        blocks=[
            builder.block(2**40, 512, 400, frames=[("g", "b.py", 2)]),
            builder.block(2**40 + 512, 512, 1, "inactive"),
        ],
        is_expandable=True,
        frames=[("h", "c.py", 3)],
    )
    return builder.build()


def test_every_column_of_a_full_snapshot_is_read() -> None:
    snap = read(full())
    segments, blocks, notes = snap.segments, snap.blocks, snap.annotations
    assert (segments.device[0], segments.address[0], segments.stream[0]) == (1, 2**40, 5)
    assert (segments.total_size[0], segments.allocated_size[0]) == (1024, 512)
    assert (segments.active_size[0], segments.requested_size[0]) == (512, 400)
    assert snap.text(int(segments.type[0])) == "small"
    assert snap.pool_id(int(segments.pool[0])) == (0, 3)
    assert segments.is_expandable[0]
    assert snap.stack(int(segments.stack[0])) == (mr.Frame("h", "c.py", 3),)
    assert blocks.segment.tolist() == [0, 0]
    assert blocks.address.tolist() == [2**40, 2**40 + 512]
    assert blocks.requested_size.tolist() == [400, 1]
    assert [snap.state_name(int(s)) for s in blocks.state] == ["active_allocated", "inactive"]
    assert snap.stack(int(blocks.stack[0])) == (mr.Frame("g", "b.py", 2),)
    assert [snap.text(int(i)) for i in notes.stage] == ["START", "END"]
    assert [snap.text(int(i)) for i in notes.name] == ["step", "step"]
    assert notes.time_us[0] < notes.time_us[1]
    frame = snap.frames
    at = snap.native.stack(int(snap.events.stack[0]))[0]
    assert snap.text(int(frame.fx_node_target[at])) == "aten.f.default"
    assert snap.text(int(frame.fx_node_name[at])) == "f_1"
    assert snap.text(int(frame.fx_node_op[at])) == "call_function"
    assert "a.py" in str(snap.text(int(frame.fx_original_trace[at])))
    assert memoryview(snap.native.column("oom_free")).tolist() == [7, 7]  # type: ignore[arg-type]
    assert memoryview(snap.native.column("oom_event")).tolist() == [2, 6]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_keys_may_come_in_any_order(seed: int) -> None:
    shuffled = build.shuffle_keys(full(), random.Random(seed))
    snap = read(shuffled, seed % 6)
    assert snap.settings == {"expandable_segments": True}
    assert snap.blocks.requested_size.tolist() == [400, 1]
    assert len(snap.annotations) == 2


ANYTHING: list[Any] = [
    None,
    True,
    7,
    2**80,
    1.5,
    "text",
    b"bytes",
    (1, 2),
    ("a", 1, None, ()),
    [],
    {},
    [1, [2, {"a": [3]}]],
    {"a": {"b": {"c": []}}, "d": ({"e": 1}, [2])},
    {1: 2, (3, 4): [5], None: {}},
    [{"action": "alloc", "addr": 1, "size": 2}, {"blocks": 1, "frames": 2}],
    {"segments": 1, "device_traces": 2, "frames": 3},
    {1, 2},
    frozenset({"a"}),
]


@pytest.mark.parametrize("value", ANYTHING, ids=repr)
def test_unknown_keys_are_skipped_everywhere(value: Any) -> None:
    for snapshot in (
        of_event(unknown=value, another=value),
        of_segment(unknown=value, another=value),
        of_segment(blocks=[{**BLOCK, "unknown": value, "another": value}]),
        of_event(frames=[{**FRAME, "unknown": value, "another": value}]),
        {"unknown": value, **of_event(), "another": value},
        {
            **of_event(),
            "external_annotations": [{"name": "a", "stage": "END", "unknown": value, "x": value}],
        },
    ):
        read(snapshot)


def test_non_string_keys_are_skipped() -> None:
    read({0: 1, **of_event(), None: [2]})
    read(of_event() | {("a", 1): {}})


def test_optional_keys_may_be_missing() -> None:
    read({"segments": [], "device_traces": [[{}]]})
    read({"device_traces": [[{"action": "alloc"}]]})
    read({"segments": [{"address": 1, "total_size": 2}]})
    read({"segments": [{"address": 1, "total_size": 2, "blocks": [{}, {"size": 512}]}]})
    read(of_event(frames=[{}]))
    snap = mr.open(build.dump({**of_event(), "external_annotations": [{}]}))
    assert snap.annotations.device.tolist() == [-1]


def test_segments_need_an_address_and_a_size() -> None:
    for lacking in ("address", "total_size"):
        snapshot = of_segment()
        del snapshot["segments"][0][lacking]
        with pytest.raises(mr.SnapshotError, match="a segment without 'address' or 'total_size'"):
            mr.open(build.dump(snapshot))


def test_bare_list_of_segments_is_a_snapshot() -> None:
    snapshot = of_segment()["segments"]
    snap = read(snapshot)
    assert snap.native.bare_list
    assert snap.native.has_segments
    assert not snap.native.has_traces
    assert read([]).devices == ()


def test_files_of_pytorch_2_0_are_read() -> None:
    builder = SnapshotBuilder()
    stack = [("f", "a.py", 1)]
    builder.segment(
        8192,
        2048,
        legacy=True,
        blocks=[
            builder.legacy_block(512, None, history=[(8192, 500, stack), (8192, 1, None)]),
            builder.legacy_block(1024, None, "inactive", [(8704, 9, None)]),
            builder.legacy_block(512, 300),
        ],
    )
    snap = read(builder.build())
    assert snap.blocks.address.tolist() == [8192, 8704, 9728]
    assert snap.blocks.requested_size.tolist() == [500, 9, 300]
    assert snap.native.any_history
    assert [f.function for f in snap.stack(int(snap.blocks.stack[0]))] == ["f"]
    assert snap.replay().carried_over_bytes == 800


def test_block_takes_precedence_over_its_history() -> None:
    history = [{"addr": 1, "real_size": 5, "frames": [dict(FRAME, name="old")]}]
    block = {**BLOCK, "frames": [FRAME], "history": history}
    for keys in (list(block), list(reversed(block))):
        snapshot = of_segment(blocks=[{key: block[key] for key in keys}])
        snap = read(snapshot)
        assert snap.blocks.requested_size.tolist() == [100]


@pytest.mark.parametrize("state", ["active_pending_free", "active_awaiting_free", "??", None])
def test_every_state_but_inactive_is_active(state: str | None) -> None:
    snap = mr.open(build.dump(of_segment(blocks=[{**BLOCK, "state": state}])))
    assert snap.replay(0).carried_over_bytes == 100
    snap = mr.open(build.dump(of_segment(blocks=[{**BLOCK, "state": "inactive"}])))
    assert snap.replay(0).carried_over_bytes == 0


@pytest.mark.parametrize(
    "given, read_as",
    [
        ((1, 2), (1, 2)),
        ([1, 2], (1, 2)),
        (7, (0, 7)),
        (None, None),
        ((0, -1), (0, -1)),
        ([2**63 - 1, -(2**63)], (2**63 - 1, -(2**63))),
    ],
)
def test_pools_are_read_in_every_form(given: Any, read_as: tuple[int, int] | None) -> None:
    snap = mr.open(build.dump(of_event(pool_id=given)))
    assert snap.pool_id(int(snap.events.pool[0])) == read_as
    snap = mr.open(build.dump(of_segment(segment_pool_id=given)))
    assert snap.pool_id(int(snap.segments.pool[0])) == read_as


def test_addresses_and_streams_are_unsigned() -> None:
    for value in (2**63 + 4096, 2**64 - 1, -4096, 0, None):
        snap = mr.open(build.dump(of_event(addr=value, stream=value)))
        assert int(snap.events.address[0]) == int(snap.events.stream[0]) == (value or 0) % 2**64


def test_any_action_name_is_kept() -> None:
    names = ["alloc", "brand_new", "", "brand_new", "other one"]
    snap = read({"device_traces": [[{"action": name} for name in names]]})
    assert [snap.action_name(int(a)) for a in snap.events.action] == names
    snap = mr.open(build.dump({"device_traces": [[{}, {"action": None}]]}))
    assert [snap.action_name(int(a)) for a in snap.events.action] == [None, None]
    assert snap.replay(0).unknown_actions == 2


def test_unknown_actions_beyond_the_codes_are_named_other() -> None:
    trace = [{"action": f"action {i}"} for i in range(400)]
    snap = mr.open(build.dump({"device_traces": [trace]}))
    found = [snap.action_name(int(a)) for a in snap.events.action]
    assert found[:200] == [f"action {i}" for i in range(200)]
    assert found[-1] == "other"
    assert snap.replay().unknown_actions == 400


def test_ring_buffer_flags_are_kept() -> None:
    snapshot = {**of_event(), "trace_alloc_overflowed": [True, False], "trace_alloc_max_entries": 9}
    snap = read(snapshot)
    assert snap.kept("overflowed") == [True, False]
    assert snap.kept("max_entries") == 9
    assert read(of_event()).kept("overflowed") is None
    with pytest.raises(KeyError):
        snap.native.kept("anything else")


def test_settings_are_kept_unchanged() -> None:
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "max_split_size": -1,
        "garbage_collection_threshold": 0.0,
        "roundup_power2_divisions": {"1": 0, "256": 8},
        "list": [None, True, 2**63, {"deep": [[]]}],
        "empty": {},
        "more": 1,
    }
    for snapshot in (
        {**of_event(), "allocator_settings": settings},
        {"allocator_settings": settings, **of_event(), "zz": [{"a": 1}]},
    ):
        for protocol in range(6):
            assert read(snapshot, protocol).settings == settings


def test_device_is_the_index_in_the_list() -> None:
    snapshot = {
        "segments": [],
        "device_traces": [[], [EVENT], [], [EVENT, EVENT | {"size": 2}], []],
    }
    snap = read(build.unshare(snapshot))
    assert snap.devices == (1, 3)
    assert snap.native.traces() == [
        (0, 0, 0, 0),
        (1, 0, 1, 1),
        (2, 1, 0, 0),
        (3, 1, 2, 2),
        (4, 3, 0, 0),
    ]
    assert snap.events.device.tolist() == [1, 3, 3]


def test_several_devices_may_share_an_empty_list() -> None:
    empty: list[Any] = []
    snap = mr.open(build.dump({"segments": [], "device_traces": [empty, [EVENT], empty]}))
    assert snap.devices == (1,)


@pytest.mark.parametrize(
    "snapshot, key",
    [
        (of_event(action=5), "action"),
        (of_event(addr="x"), "addr"),
        (of_event(size=1.5), "size"),
        (of_event(size=None), "size"),
        (of_event(stream=[]), "stream"),
        (of_event(time_us="now"), "time_us"),
        (of_event(frames="f"), "frames"),
        (of_event(frames=["f"]), "frames"),
        (of_event(frames=[FRAME, 1]), "frames"),
        (of_event(frames=[{"name": 1}]), "name"),
        (of_event(frames=[{"line": "one"}]), "line"),
        (of_event(pool_id=(1, 2, 3)), "pool_id"),
        (of_event(pool_id=[1]), "pool_id"),
        (of_event(pool_id=["a", 2]), "pool_id"),
        (of_event(device_free="x"), "device_free"),
        (of_segment(address="x"), "address"),
        (of_segment(total_size=[]), "total_size"),
        (of_segment(device="cuda:0"), "device"),
        (of_segment(segment_type=1), "segment_type"),
        (of_segment(is_expandable="yes"), "is_expandable"),
        (of_segment(blocks={}), "blocks"),
        (of_segment(blocks=[1]), "blocks"),
        (of_segment(blocks=[{**BLOCK, "state": 2}]), "state"),
        (of_segment(blocks=[{**BLOCK, "history": 1}]), "history"),
        (of_segment(blocks=[{**BLOCK, "history": [1]}]), "history"),
        ({"segments": {}, "device_traces": []}, "segments"),
        ({"segments": [1]}, "segments"),
        ({"segments": [], "device_traces": {}}, "device_traces"),
        ({"device_traces": [1]}, "device_traces"),
        ({"device_traces": [[1]]}, "device_traces"),
        ({**of_event(), "external_annotations": 5}, "external_annotations"),
        ({**of_event(), "external_annotations": [5]}, "external_annotations"),
        ({**of_event(), "external_annotations": [{"name": 1}]}, "name"),
    ],
    ids=repr,
)
def test_value_of_the_wrong_type_names_its_key(snapshot: Any, key: str) -> None:
    for data in (build.dump(snapshot), build.dump_cpp(snapshot) if key != "size" else b""):
        if data:
            with pytest.raises(mr.SnapshotError, match=rf"'{key}' has a value of the wrong type"):
                mr.open(data)


@pytest.mark.parametrize(
    "snapshot, key",
    [
        (of_event(size=-1), "size"),
        (of_event(size=2**62), "size"),
        (of_event(size=2**63), "size"),
        (of_event(addr=2**64), "addr"),
        (of_event(time_us=2**63), "time_us"),
        (of_event(frames=[{**FRAME, "line": 2**63}]), "line"),
        (of_event(frames=[{**FRAME, "line": 2**64 - 2}]), "line"),
        (of_event(frames=[{**FRAME, "line": 2**64}]), "line"),
        (of_segment(device=2**31), "device"),
        (of_segment(total_size=-5), "total_size"),
        (of_segment(blocks=[{**BLOCK, "requested_size": -5}]), "requested_size"),
        (of_segment(blocks=[{"history": [{"real_size": -5}]}]), "real_size"),
    ],
    ids=repr,
)
def test_number_out_of_range_names_its_key(snapshot: Any, key: str) -> None:
    with pytest.raises(mr.SnapshotError, match=rf"a number that does not fit in '{key}'"):
        mr.open(build.dump(snapshot))


@pytest.mark.parametrize("dump", [build.dump, build.dump_cpp, lambda one: json.dumps(one).encode()])
def test_code_without_a_line_has_line_0(dump: Any) -> None:
    """This was seen in PyTorch 2.11 with Python 3.11, in fake_tensor.py."""
    frames = [{**FRAME, "line": 2**64 - 1}, FRAME, {**FRAME, "line": -1}]
    read = mr.open(dump(of_event(frames=frames)))
    assert [one.line for one in read.stack(int(read.events.stack[0]))] == [0, 3, 0]


def test_rows_are_stored_once() -> None:
    segment, block = of_segment()["segments"][0], dict(BLOCK)
    for snapshot in (
        {"segments": [segment, segment]},
        of_segment(blocks=[block, block]),
    ):
        with pytest.raises(mr.SnapshotError, match="is listed twice"):
            mr.open(build.dump(snapshot))


def test_parts_may_not_change_after_use() -> None:
    def frame_event(ops: Ops) -> Ops:
        ops.empty_dict().mark().string("frames").empty_list().put(1).mark()
        ops.empty_dict().mark().string("line").integer(1).setitems().put(2).appends().setitems()
        return ops

    def start() -> Ops:
        ops = Ops().proto(4).empty_dict().string("device_traces").empty_list().empty_list().mark()
        return frame_event(ops)

    frame = start().get(2).string("line").integer(9).setitem().op("POP")
    stack = start().get(1).get(2).append().op("POP")
    for ops, what in ((frame, "a frame"), (stack, "a frames list")):
        ops.appends().append().setitem().stop()
        with pytest.raises(mr.SnapshotError, match=f"{what} that changes after its use"):
            mr.open(bytes(ops))


def test_annotations_given_twice_are_refused_unless_the_first_is_none() -> None:
    none_first = Ops().proto(4).empty_dict().string("segments").empty_list().setitem()
    none_first.string("external_annotations").op("NONE").setitem()
    notes = Ops().string("external_annotations").empty_list().empty_dict().mark()
    notes.strings("name", "step").setitems().append().setitem()
    assert len(mr.open(bytes(none_first) + bytes(notes) + b".").annotations) == 1
    notes.string("external_annotations").op("NONE").setitem()
    with pytest.raises(mr.SnapshotError, match="'external_annotations' twice"):
        mr.open(bytes(none_first) + bytes(notes) + b".")


def test_blocks_follow_the_order_of_their_segments() -> None:
    def segment(ops: Ops, address: int) -> Ops:
        ops.empty_dict().put(address).mark().string("address").integer(address)
        return ops.string("total_size").integer(1).setitems()

    def blocks(ops: Ops, address: int) -> Ops:
        ops.get(address).string("blocks").empty_list().empty_dict().append().setitem()
        return ops.op("POP")

    for order in ((1, 2), (2, 1)):
        ops = Ops().proto(4).empty_dict().string("segments").empty_list().mark()
        segment(segment(ops, 1), 2).appends().setitem()
        ops = blocks(blocks(ops, order[0]), order[1]).stop()
        if order == (1, 2):
            assert mr.open(bytes(ops)).blocks.address.tolist() == [1, 2]
        else:
            with pytest.raises(mr.SnapshotError, match="in a different order than their segments"):
                mr.open(bytes(ops))


def of_history(later: Ops) -> bytes:
    """Return a snapshot with two blocks, each followed by `later`. The first block has 10 bytes and
    two history entries of 7 and 8 bytes (1 and 2 in the memo). The second has an entry of 9 bytes
    (3 in the memo).
    """
    ops = Ops().proto(4).empty_dict().string("segments").empty_list().empty_dict().mark()
    ops.string("address").integer(0).string("total_size").integer(99)
    ops.string("blocks").empty_list().mark().empty_dict().mark().string("size").integer(10)
    ops.string("history").empty_list().mark()
    for number in (1, 2):
        ops.empty_dict().put(number).mark().string("real_size").integer(6 + number).setitems()
    ops.raw(bytes(later)).appends().setitems()
    ops.empty_dict().mark().string("history").empty_list().empty_dict().put(3)
    ops.mark().string("real_size").integer(9).setitems().append().setitems()
    ops.raw(bytes(later)).appends().setitems().append().setitem()
    return bytes(ops.stop())


def test_only_the_first_entry_of_a_history_counts() -> None:
    assert mr.open(of_history(Ops())).blocks.requested_size.tolist() == [7, 9]


@pytest.mark.parametrize("entry", [1, 2])
def test_history_entry_may_not_change_after_the_next_began(entry: int) -> None:
    later = Ops().get(entry).string("real_size").integer(3).setitem().op("POP")
    with pytest.raises(mr.SnapshotError, match="'history' that changes after its use"):
        mr.open(of_history(later))


def test_pool_id_may_not_change_after_use() -> None:
    for extra, read_as in ((Ops(), (3, 4)), (Ops().get(1).integer(5).append().op("POP"), None)):
        ops = Ops().proto(4).empty_dict().string("device_traces").empty_list().empty_list()
        ops.empty_dict().string("pool_id").empty_list().put(1).mark().integer(3).integer(4)
        ops.appends().setitem().raw(bytes(extra)).append().append().setitem().stop()
        if read_as:
            snap = mr.open(bytes(ops))
            assert snap.pool_id(int(snap.events.pool[0])) == read_as
        else:
            with pytest.raises(mr.SnapshotError, match="a pool id that changes after its use"):
                mr.open(bytes(ops))


@pytest.mark.parametrize("shared", ["segments", "unknown"])
def test_settings_used_elsewhere_in_the_file_are_refused(shared: str) -> None:
    whole: dict[str, Any] = {"segments": [], "unknown": {"a": 1}}
    whole["allocator_settings"] = whole[shared]
    for protocol in range(6):
        with pytest.raises(mr.SnapshotError, match="a part of the snapshot inside kept data"):
            mr.open(build.dump(whole, protocol))
