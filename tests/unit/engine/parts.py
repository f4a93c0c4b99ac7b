"""Pieces that the tests of the native stages share: small pickles, opcode by opcode."""

from __future__ import annotations

import memreplay as mr
from tests.build import Ops

# Strings that stand in the memo from the start, by the number they are stored under.
NAMES = (
    "action",
    "addr",
    "size",
    "frames",
    "alloc",
    "free_completed",
    "stream",
    "time_us",
    "pool_id",
    "compile_context",
    "user_metadata",
    "name",
)
NUMBER = {name: number for number, name in enumerate(NAMES)}
FIRST_FREE = len(NAMES)
NOTHING = b"\x95" + bytes(8)  # a FRAME of no bytes: it means nothing


def named() -> Ops:
    """A pickle that begins with NAMES in its memo and nothing on the stack."""
    ops = Ops().proto(4)
    for number, name in enumerate(NAMES):
        ops.string(name).put(number).op("POP")
    return ops


def open_trace(ops: Ops) -> Ops:
    """Goes into the list of device 0's events, in a snapshot that has no segments."""
    ops.empty_dict().mark().string("segments").empty_list()
    return ops.string("device_traces").empty_list().empty_list().mark()


def close_trace(ops: Ops, padding: int = 0) -> bytes:
    """Ends what `open_trace` began. `padding` empty frames keep the end of the input away."""
    ops.appends().append().setitems().raw(NOTHING * padding)
    return bytes(ops.stop())


def name(ops: Ops, text: str) -> Ops:
    """One of NAMES."""
    return ops.get(NUMBER[text])


def alloc(ops: Ops, addr: int, size: int) -> Ops:
    """An alloc event, as the hot path takes it."""
    ops.empty_dict().mark()
    name(name(ops, "action"), "alloc")
    name(ops, "addr").integer(addr)
    return name(ops, "size").integer(size).setitems()


def value_of(ops: Ops) -> object:
    """What the value that `ops` (without PROTO and STOP) pushes is read as: a setting, kept."""
    whole = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    whole.string("allocator_settings").empty_dict().mark().string("x").raw(bytes(ops))
    return mr.open(bytes(whole.setitems().setitems().stop())).settings["x"]


def setting(ops: Ops) -> bytes:
    """A snapshot in which `ops` stands where a setting's value should."""
    whole = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    whole.string("allocator_settings").empty_dict().mark().string("x").raw(bytes(ops))
    return bytes(whole.setitems().setitems().stop())
