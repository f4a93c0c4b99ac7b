"""Uncommon but valid ways to write a small snapshot."""

from __future__ import annotations

import struct

from tests.pickle_ops import Ops


def _start() -> Ops:
    """Write everything up to device 0's list of events."""
    return Ops().proto(4).empty_dict().string("device_traces").empty_list().empty_list()


def _end(ops: Ops) -> bytes:
    return bytes(ops.append().setitem().stop())


def _event(ops: Ops) -> Ops:
    return ops.empty_dict().string("action").string("alloc").setitem()


def _item_by_item() -> Ops:
    ops = _event(_start())
    ops.string("addr").integer(5).setitem().string("size").integer(7).setitem().append()
    return _event(ops).append()


def _batches() -> Ops:
    ops = _start().mark()
    for size in (1, 2):
        ops.empty_dict().mark().string("action").string("alloc").setitems()
        ops.mark().string("size").integer(size).string("addr").integer(9).setitems()
    return ops.appends().mark().appends()


def _collected() -> Ops:
    ops = _start().mark().mark().op("DICT")
    ops.string("frames").mark().op("LIST").mark().op("DICT").string("name").string("f").setitem()
    return ops.append().setitem().appends()


def _detours() -> Ops:
    ops = _event(_start().op("NONE").op("POP").mark().integer(1).op("POP_MARK"))
    ops.string("size").op("DUP").op("POP").integer(4).put(77).setitem().append()
    return _event(ops).string("addr").get(77).setitem().append()


def _wide() -> Ops:
    ops = _event(_start())
    ops.string("addr").op("LONG4", struct.pack("<I", 9) + (2**63).to_bytes(9, "little")).setitem()
    ops.string("size").long1(3, 12).setitem()
    ops.op("BINUNICODE8", struct.pack("<Q", 6) + b"stream").op("LONG1", b"\0").setitem()
    return ops.append()


CASES: dict[str, bytes] = {
    "item by item": _end(_item_by_item()),
    "keys in batches": _end(_batches()),
    "collected from the stack": _end(_collected()),
    "detours": _end(_detours()),
    "wide numbers": _end(_wide()),
    "no PROTO": _end(_item_by_item())[2:],
    "PROTO in the middle": _end(_item_by_item().proto(2)),
}
