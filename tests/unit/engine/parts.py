"""Helpers shared by the tests of the native stages: small pickles, built opcode by opcode."""

from __future__ import annotations

import memreplay as mr
from tests.pickle_ops import Ops

# Strings that are in the memo from the start, by their index.
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
NOTHING = b"\x95" + bytes(8)  # an empty FRAME: it has no effect


def named() -> Ops:
    """Start a pickle with NAMES in its memo and nothing on the stack."""
    ops = Ops().proto(4)
    for number, name in enumerate(NAMES):
        ops.string(name).put(number).op("POP")
    return ops


def open_trace(ops: Ops) -> Ops:
    """Continue with the list of device 0's events, in a snapshot without segments."""
    ops.empty_dict().mark().string("segments").empty_list()
    return ops.string("device_traces").empty_list().empty_list().mark()


def close_trace(ops: Ops, padding: int = 0) -> bytes:
    """Close what `open_trace` opened. `padding` empty frames keep the end of the input out of
    reach.
    """
    ops.appends().append().setitems().raw(NOTHING * padding)
    return bytes(ops.stop())


def name(ops: Ops, text: str) -> Ops:
    """Push one of NAMES."""
    return ops.get(NUMBER[text])


def alloc(ops: Ops, addr: int, size: int) -> Ops:
    """Return an alloc event in the form that the fast path handles."""
    ops.empty_dict().mark()
    name(name(ops, "action"), "alloc")
    name(ops, "addr").integer(addr)
    return name(ops, "size").integer(size).setitems()


def value_of(ops: Ops) -> object:
    """Return the value that memreplay reads for a setting that `ops` (without PROTO and STOP)
    pushes.
    """
    whole = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    whole.string("allocator_settings").empty_dict().mark().string("x").raw(bytes(ops))
    return mr.open(bytes(whole.setitems().setitems().stop())).settings["x"]


def setting(ops: Ops) -> bytes:
    """Return a snapshot with `ops` in place of a setting's value."""
    whole = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    whole.string("allocator_settings").empty_dict().mark().string("x").raw(bytes(ops))
    return bytes(whole.setitems().setitems().stop())
