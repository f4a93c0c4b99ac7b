"""Mutators that know pickle opcodes, and generators of opcode streams."""

from __future__ import annotations

import pickletools
import random
import struct
from functools import lru_cache
from itertools import pairwise
from typing import Any

from tests.fuzz import raw
from tests.pickle_ops import Ops

# fmt: off
KEYS = [
    "segments", "device_traces", "external_annotations", "allocator_settings",
    "trace_alloc_overflowed", "trace_alloc_max_entries", "action", "addr", "size", "stream",
    "time_us", "frames", "compile_context", "user_metadata", "pool_id", "device_free", "device",
    "address", "total_size", "allocated_size", "active_size", "requested_size", "segment_type",
    "segment_pool_id", "is_expandable", "blocks", "state", "history", "real_size", "filename",
    "line", "name", "stage", "fx_node_op", "alloc", "free_requested", "free_completed",
    "segment_alloc", "segment_free", "oom", "snapshot", "active_allocated", "active_pending_free",
    "inactive", "large", "small", "START", "END", "new",
]
# fmt: on
OPCODES = [op.name for op in pickletools.opcodes]
PLAIN = [
    op.name
    for op in pickletools.opcodes
    if op.arg is None and op.name not in ("STOP", "REDUCE", "BUILD", "OBJ", "NEWOBJ", "NEWOBJ_EX")
]


@lru_cache(maxsize=4096)
def pieces(data: bytes) -> tuple[bytes, ...]:
    """Return a pickle's opcodes, each with its argument; from invalid data on, the rest is one
    piece.
    """
    starts = []
    try:
        for _, _, at in pickletools.genops(data):
            starts.append(at or 0)
    except Exception:  # pickletools raises anything
        pass
    starts = sorted({0, *starts, len(data)})
    return tuple(data[a:b] for a, b in pairwise(starts))


def opcodes_changed(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Remove, duplicate, move or replace some opcodes, or take them from the other pickle."""
    ops = list(pieces(data))
    for _ in range(rng.choice((1, 1, 2, 4))):
        if not ops:
            break
        start = rng.randrange(len(ops))
        stop = start + (1 if rng.random() < 0.7 else rng.randrange(1, 40))
        at = rng.randrange(len(ops) + 1) if rng.random() < 0.3 else start
        what = rng.randrange(7)
        if what == 0:
            del ops[start:stop]
        elif what == 1:
            ops[at:at] = ops[start:stop] * (1 if rng.random() < 0.8 else rng.choice((2, 50)))
        elif what == 2:
            taken = ops[start:stop]
            del ops[start:stop]
            ops[at:at] = taken
        elif what == 3:
            ops[start] = any_opcode(rng)
        elif what == 4:
            ops.insert(start, any_opcode(rng))
        elif what == 5:
            found = pieces(other)
            if found:
                first = rng.randrange(len(found))
                ops[at : at + rng.randrange(3)] = found[first : first + rng.randrange(1, 30)]
        else:
            ops[start] = raw.mutated(rng, ops[start], 1)
    return b"".join(ops)


def any_opcode(rng: random.Random) -> bytes:
    """Return a random opcode with a well-formed argument."""
    ops = Ops()
    kind = rng.random()
    if kind < 0.35:
        ops.op(rng.choice(PLAIN))
    elif kind < 0.5:
        ops.string(rng.choice(KEYS))
    elif kind < 0.6:
        integer(rng, ops)
    elif kind < 0.7:
        ops.get(rng.randrange(40))
    elif kind < 0.8:
        ops.put(rng.randrange(40))
    else:
        name = rng.choice(OPCODES)
        ops.op(name, argument(rng, name))
    return bytes(ops)


def argument(rng: random.Random, name: str) -> bytes:
    """Return an argument for this opcode: valid, or nearly so."""
    found: Any = next(op for op in pickletools.opcodes if op.name == name).arg
    if found is None:
        return b""
    if found.n >= 0:
        value: int = rng.choice(raw.EDGES) if rng.random() < 0.5 else rng.randrange(64)
        written: bytes = (value % (1 << 8 * found.n)).to_bytes(found.n, "little")
        return written
    text = rng.choice(KEYS).encode()
    if found.n == pickletools.UP_TO_NEWLINE:
        lines = (b"%d" % rng.choice(raw.EDGES), b"'%s'" % text, text, b"1.5", b"01", b"L", b"\\u")
        line = rng.choice(lines) + (b"L" if rng.random() < 0.2 else b"") + b"\n"
        return line + text + b"\n" if "pair" in found.name else line
    width = {"1": 1, "4": 4, "8": 8}[found.name[-1]]
    length = len(text) if rng.random() < 0.7 else rng.choice(raw.EDGES)
    return (length % (1 << 8 * width)).to_bytes(width, "little") + text


def integer(rng: random.Random, ops: Ops) -> None:
    value = rng.choice(raw.EDGES) if rng.random() < 0.3 else rng.randrange(5000)
    if -(2**63) <= value < 2**63 and rng.random() < 0.3:
        ops.long1(value, 8 + rng.randrange(3))
    else:
        ops.integer(value)


def stream(rng: random.Random) -> bytes:
    """Return opcodes in random order."""
    out = [b"\x80" + bytes([rng.choice((2, 4, 5))])] if rng.random() < 0.9 else []
    out += [any_opcode(rng) for _ in range(rng.randrange(1, 120))]
    return b"".join([*out, b"."])


# Possible values by key: the writer below mostly uses these.
LISTS = {
    "segments": "segment",
    "device_traces": "trace",
    "external_annotations": "annotation",
    "blocks": "block",
    "history": "block",
    "frames": "frame",
}
DICTS = {
    "segment": "address total_size device stream segment_type segment_pool_id blocks frames",
    "annotation": "name stage device time_us",
    "block": "address size requested_size state frames history addr real_size",
    "frame": "name filename line fx_node_op",
    "event": "action addr size stream time_us frames pool_id user_metadata compile_context",
    "": "segments device_traces external_annotations allocator_settings new",
}
TEXTS = ("action", "state", "name", "filename", "stage", "segment_type", "compile_context")


class Writer:
    """Write a snapshot opcode by opcode, in uncommon and roundabout ways; the result is rarely
    valid.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.ops = Ops().proto(rng.choice((2, 4)))
        self.stored = 0
        self.left = rng.choice((20, 60, 200))
        self.wild = rng.choice((0.05, 0.3, 1))

    def whole(self) -> bytes:
        self.holder("")
        return bytes(self.ops.stop())

    def value(self, key: str, depth: int) -> None:
        rng = self.rng
        self.left -= 1
        if rng.random() < 0.04:
            self.detour()
        dice = rng.random() / self.wild
        if dice < 0.06 and self.stored:
            self.ops.get(rng.randrange(self.stored))
        elif dice < 0.1:
            self.ops.raw(any_opcode(rng))
        elif dice < 0.14 and depth < 8:
            self.value(rng.choice(KEYS), depth + 1)
        elif key in LISTS:
            self.items(LISTS[key], depth)
        elif key == "trace":
            self.items("event", depth)
        elif key in DICTS:
            self.holder(key, depth)
        elif key in ("pool_id", "segment_pool_id"):
            integer(rng, self.ops)
            integer(rng, self.ops)
            self.ops.op("TUPLE2")
        elif key in TEXTS:
            self.ops.string(rng.choice(KEYS))
        elif key in ("user_metadata", "allocator_settings", "new") and depth < 8:
            rng.choice((self.items, self.holder))(rng.choice(("new", "frame", "")), depth)
        else:
            integer(rng, self.ops)
        if rng.random() < 0.15:
            number = self.stored if rng.random() < 0.9 else rng.randrange(40)
            self.ops.put(number)
            self.stored += number == self.stored

    def holder(self, kind: str, depth: int = 0) -> None:
        """Write a dict, item by item or in batches."""
        rng, ops = self.rng, self.ops
        ops.empty_dict()
        self.maybe_store()
        batch = rng.random() < 0.7
        if batch:
            ops.mark()
        for key in DICTS.get(kind, "new").split():
            if rng.random() < 0.3 or self.left < 0:
                continue
            ops.string(key)
            self.value(key, depth + 1)
            if not batch:
                ops.setitem()
            elif rng.random() < 0.1:
                ops.setitems().mark()
        if batch:
            ops.setitems()

    def items(self, kind: str, depth: int = 0) -> None:
        """Write a list, item by item or in batches."""
        rng, ops = self.rng, self.ops
        ops.empty_list()
        self.maybe_store()
        batch = rng.random() < 0.7
        if batch:
            ops.mark()
        for _ in range(rng.choice((0, 1, 2, 3, 6))):
            if self.left < 0:
                break
            self.value(kind, depth + 1)
            if not batch:
                ops.append()
            elif rng.random() < 0.1:
                ops.appends().mark()
        if batch:
            ops.appends()

    def maybe_store(self) -> None:
        if self.rng.random() < 0.3:
            self.ops.put(self.stored)
            self.stored += 1

    def detour(self) -> None:
        """Write opcodes that have no effect, or at least shouldn't have one."""
        ops, rng = self.ops, self.rng
        what = rng.randrange(7)
        if what == 0:
            ops.mark().integer(1).op("POP_MARK")
        elif what == 1:
            ops.op("NONE").op("POP")
        elif what == 2:
            ops.mark().op("LIST").op("POP")
        elif what == 3:
            ops.frame(rng.randrange(64))
        elif what == 4 and self.stored:
            ops.get(rng.randrange(self.stored)).op("POP")
        elif what == 5:
            self.value(rng.choice(KEYS), 5)
            ops.op("POP")
        else:
            ops.op("BINBYTES", struct.pack("<I", 5) + bytes(5)).op("POP")


def written(rng: random.Random) -> bytes:
    """Return a snapshot written opcode by opcode."""
    return Writer(rng).whole()
