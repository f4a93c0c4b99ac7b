"""A container's role is guessed from its place. A wrong guess is an error and never gives a wrong
row.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import memreplay as mr
from memreplay.engine.write import _dump
from tests import build, oracle
from tests.build import SnapshotBuilder
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops

SEGMENT = {"device": 0, "address": 4096, "total_size": 2**21, "blocks": []}
EVENT = {"action": "alloc", "addr": 1, "size": 9}
BLOCK = {"address": 4096, "size": 512, "requested_size": 7, "state": "active_allocated"}


def snapshot(**more: Any) -> dict[str, Any]:
    return {**more, "segments": [dict(SEGMENT, blocks=[BLOCK])], "device_traces": [[EVENT]]}


LIKE_SNAPSHOTS = [
    {"segments_too": [{"segments": [SEGMENT]}, {"frames": [1]}]},
    {"other": {"segments": [SEGMENT], "device_traces": [[EVENT]], "more": 1}},
]
UNKNOWN = [
    {"empty": {}},
    {"empty": []},
    *LIKE_SNAPSHOTS,
    {"other": {"deep": {"blocks": [BLOCK], "x": {"frames": [1, 2]}}, "y": {}}},
    {"host_traces": [[EVENT, EVENT]], "host_segments": [SEGMENT]},
    {"allocator_settings": {}, "unknown": [{"a": 1}] * 3},
    {"allocator_settings": {"a": {"segments": [1], "b": 2}}},
]


@pytest.mark.parametrize("more", UNKNOWN, ids=repr)
def test_unknown_data_is_skipped_with_any_keys(more: dict[str, Any]) -> None:
    for first in (True, False):
        # Sharing is removed, because unknown data that the snapshot shares later is read
        # differently.
        whole = build.unshare({**more, **snapshot()} if first else {**snapshot(), **more})
        for data in forms_of(whole):
            if first and more in LIKE_SNAPSHOTS:
                # Nothing before the unknown data shows that its parent is a snapshot, too.
                with pytest.raises(mr.SnapshotError, match=r"^2 snapshots in one file"):
                    mr.open(data)
                assert_same_tables(mr.open(data, pick=2), mr.open(build.dump(snapshot())))
            else:
                assert_like_oracle(data, whole)


def forms_of(whole: Any) -> list[bytes]:
    return [*(build.dump(whole, protocol) for protocol in range(6)), json.dumps(whole).encode()]


def assert_same_tables(one: mr.Snapshot, other: mr.Snapshot) -> None:
    assert _rows(one) == _rows(other)
    assert one.replay().peak == other.replay().peak


def _rows(snap: mr.Snapshot) -> bytes:
    return b"".join(_dump.dump(snap.native, True))


@pytest.mark.parametrize(
    "whole",
    [
        snapshot(other={"segments": [SEGMENT]}),
        {"other": {"segments": [SEGMENT]}, "device_traces": [[]]},
        {"other": {"device_traces": [[EVENT]]}, "segments": []},
        {"segments": [{"extra": {"blocks": [BLOCK]}, **SEGMENT}]},
        snapshot(allocator_settings={"segments": [SEGMENT]}),
        {"device_traces": [[{**EVENT, "user_metadata": {"pool_id": [7, 8, 9]}}]]},
    ],
    ids=repr,
)
def test_wrong_guess_is_an_error(whole: Any) -> None:
    for protocol in (2, 4):
        with pytest.raises(mr.SnapshotError):
            mr.open(build.dump(whole, protocol))


def test_popped_list_of_segments_is_refused() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list().mark()
    ops.empty_dict().mark().string("address").integer(1).string("total_size").integer(2)
    ops.setitems().appends().op("POP").op("POP").op("POP_MARK").stop()
    with pytest.raises(mr.SnapshotError):
        mr.open(bytes(ops))


def test_any_metadata_is_kept() -> None:
    for value in ({"step": 3, "x": [1, None, True, 'é\n"']}, [1, [2, {}]], 7, 2.5, True, "", "a"):
        for key in ("user_metadata", "compile_context"):
            whole = {"device_traces": [[{**EVENT, key: value}]]}
            snap = mr.open(build.dump(whole))
            assert snap.metadata(int(getattr(snap.events, key)[0])) == value


def test_too_large_settings_are_refused_not_cut() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    laughs: Any = ["ha"]
    for _ in range(30):
        laughs = [laughs] * 10
    for bad in (deep, laughs, list(range(200_000))):
        snap = mr.open(build.dump({"segments": [], "allocator_settings": {"x": bad}}))
        with pytest.raises(mr.LimitError, match="allocator settings"):
            _ = snap.settings


def test_overwritten_memo_entry_has_the_new_value() -> None:
    def frame(ops: Ops, name: str) -> None:
        ops.empty_dict().mark().string("name").string(name).string("filename").string("f.py")
        ops.string("line").integer(1).setitems()

    def event(ops: Ops, *frames: int) -> None:
        ops.empty_dict().mark()
        ops.get(1).get(0).get(2).integer(8).get(3).integer(8)
        ops.get(4).empty_list().mark()
        for index in frames:
            ops.get(index)
        ops.appends().setitems()

    ops = Ops().proto(2)
    for index, text in enumerate(("alloc", "action", "addr", "size", "frames")):
        ops.string(text).put(index).op("POP")
    ops.empty_dict().mark().string("device_traces").empty_list().mark().empty_list().mark()
    # At first the frames are part of an inline event; then they are stored again.
    names = "AB"
    for name in names:
        ops.empty_dict().mark().get(4).empty_list().mark()
        frame(ops, name)
        ops.put(5).get(5).appends().setitems()
        for _ in range(60):
            event(ops, 5, 5)
    ops.appends().appends().setitems().stop()
    data = bytes(ops)
    whole = oracle.load(data)
    assert_like_oracle(data, whole)
    snap = mr.open(data)
    assert snap.native.fast_events > 0
    assert [snap.stack(int(s))[0].function for s in snap.events.stack] == list("A" * 61 + "B" * 61)


def test_shared_parts_may_be_dropped_after_use() -> None:
    builder = SnapshotBuilder().alloc(1, 2).finish_segments()
    whole = builder.build()
    whole["copy_of_segments"] = whole["segments"]
    assert_like_oracle(build.dump(whole), whole)


@pytest.mark.parametrize("value", [[], [1], {}, {"a": 1}, ("b", 2.5, None)], ids=repr)
@pytest.mark.parametrize("key", [3, None, True, 1.5, (1, 2)], ids=repr)
@pytest.mark.parametrize("more", [{}, {"x": 1, "y": 2}], ids=("alone", "more"))
def test_non_string_metadata_keys_are_kept_as_json(
    key: Any, value: Any, more: dict[str, Any]
) -> None:
    want = {**more, json.dumps(key): list(value) if isinstance(value, tuple) else value}
    for protocol in range(2, 6):
        data = {**more, key: value}
        whole = {"segments": [], "device_traces": [[{**EVENT, "user_metadata": data}]]}
        snap = mr.open(build.dump({**whole, "allocator_settings": data}, protocol))
        assert snap.metadata(int(snap.events.user_metadata[0])) == want
        assert snap.settings == want
