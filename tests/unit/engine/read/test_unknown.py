"""unknown: data that turns out to be a frame or a list of frames must not change after its use."""

from __future__ import annotations

from typing import Any

import pytest

import memreplay as mr
from tests import build, oracle
from tests.compare import assert_like_oracle
from tests.pickle_ops import Ops

FRAME = {"name": "f", "filename": "a.py", "line": 3}
EVENT = {"action": "alloc", "addr": 1, "size": 9}


def start() -> Ops:
    """Start an event; the memo has an unknown dict (0) and an unknown list containing it (1)."""
    ops = Ops().proto(4).empty_dict().mark().string("new").empty_list().put(1)
    ops.empty_dict().put(0).string("name").string("f").setitem().append()
    return ops.string("device_traces").empty_list().empty_list().empty_dict()


def end(ops: Ops) -> bytes:
    return bytes(ops.append().append().setitems().stop())


def rename(ops: Ops, number: int) -> Ops:
    """Set a name in the dict of the memo."""
    return ops.get(number).string("name").string("g").setitem().op("POP")


def test_frame_may_change_before_its_use() -> None:
    ops = rename(start(), 0).string("frames").empty_list().get(0).append().setitem()
    data = end(ops)
    snap = assert_like_oracle(data, oracle.load(data))
    assert [f.function for f in snap.stack(int(snap.events.stack[0]))] == ["g"]


def test_frame_in_a_list_may_change_before_its_use() -> None:
    data = end(rename(start(), 0).string("frames").get(1).setitem())
    snap = assert_like_oracle(data, oracle.load(data))
    assert [f.function for f in snap.stack(int(snap.events.stack[0]))] == ["g"]


def test_list_may_grow_before_its_use() -> None:
    ops = start().get(1).get(0).append().op("POP").string("frames").get(1).setitem()
    data = end(ops)
    snap = assert_like_oracle(data, oracle.load(data))
    assert len(snap.stack(int(snap.events.stack[0]))) == 2


AFTER: dict[str, Any] = {
    "a frame": lambda: rename(start().string("frames").get(1).setitem(), 0),
    "a frame, by itself": lambda: rename(
        start().string("frames").empty_list().get(0).append().setitem(), 0
    ),
    "a list": lambda: start().string("frames").get(1).setitem().get(1).get(0).append().op("POP"),
    "a tuple's frame": lambda: rename(start().string("frames").get(0).op("TUPLE1").setitem(), 0),
}


@pytest.mark.parametrize("what", AFTER)
def test_change_after_use_is_refused(what: str) -> None:
    data = end(AFTER[what]())
    oracle.load(data)
    with pytest.raises(mr.SnapshotError, match=r"changes after its use \(byte \d+, [A-Z]+\)"):
        mr.open(data)


def test_other_keys_may_be_set_after_use() -> None:
    ops = start().string("frames").get(1).setitem()
    data = end(ops.get(0).string("color").string("g").setitem().op("POP"))
    assert_like_oracle(data, oracle.load(data))


def test_unknown_data_may_contain_itself() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list().string("new")
    ops.empty_dict().put(0).string("me").empty_list().put(1).get(0).append().get(1).append()
    ops.setitem().string("name").get(0).setitem().string("line").integer(1).setitem()
    mr.open(bytes(ops.setitems().stop()))


def test_unused_frames_are_not_kept() -> None:
    snapshot = {"new": [[{**FRAME, "line": i}] for i in range(50)], "device_traces": [[EVENT]]}
    native = mr.open(build.dump(snapshot)).native
    assert native.n_frames == native.n_stacks == 1


def test_frames_in_unknown_data_are_compared_by_value() -> None:
    frames = [dict(FRAME), dict(FRAME)]
    snapshot = {
        "new": frames[0],
        "device_traces": [[{**EVENT, "frames": [f]} for f in frames]],
    }
    snap = assert_like_oracle(build.dump(snapshot), snapshot)
    assert len(set(snap.events.stack.tolist())) == 1
    assert snap.native.n_frames == 2
