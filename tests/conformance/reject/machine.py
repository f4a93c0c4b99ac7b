"""Pickles that break the pickle machine, ask for too much, or ask for code."""

from __future__ import annotations

import struct

from memreplay import LimitError, SnapshotError, TruncatedError, UnsafePickleError
from tests import build
from tests.build import Ops
from tests.conformance.cases import EVENT, Reject, trace

_GOOD = build.dump(trace(EVENT))
_PLACE = r" \(byte \d+, {}\)"


def _inside(ops: Ops) -> bytes:
    """`ops` where the value of an unknown key should stand."""
    whole = Ops().proto(4).empty_dict().mark().string("segments").empty_list().string("new")
    return bytes(whole.raw(bytes(ops)).setitems().stop())


def _broken(ops: Ops, what: str, opcode: str) -> Reject:
    return Reject(_inside(ops), SnapshotError, what + _PLACE.format(opcode))


def _huge(opcode: str, length: bytes) -> Reject:
    place = _PLACE.format(opcode)
    return Reject(
        _inside(Ops().op(opcode, length)), LimitError, r"string_bytes is \d+, over .*" + place
    )


_UNSAFE = {
    f"unsafe: {name}": Reject(data, UnsafePickleError, "the pickle asks to load or call .*byte")
    for name, data in build.unsafe_pickles().items()
}
_CALLS = {
    f"a call, protocol {protocol}{', inside' if inside else ''}": Reject(
        build.calls_function(protocol, inside), UnsafePickleError, r"load or call os\.system \(byte"
    )
    for protocol in (2, 4)
    for inside in (False, True)
}

CASES: dict[str, Reject] = {
    **_UNSAFE,
    **_CALLS,
    "cut off": Reject(_GOOD[:-1], TruncatedError, r"truncated pickle: need 1 byte, 0 left"),
    "cut off in a string": Reject(
        _GOOD[: _GOOD.index(b"device_traces") + 3],
        TruncatedError,
        r"need 15 bytes, 5 left" + _PLACE.format("SHORT_BINUNICODE"),
    ),
    "PROTO only": Reject(b"\x80\x04", TruncatedError, "need 1 byte, 0 left"),
    "half a PROTO": Reject(b"\x80", TruncatedError, "need 2 bytes, 1 left"),
    "a protocol to come": Reject(b"\x80\x07N.", SnapshotError, "protocol 7 is not known .*PROTO"),
    "no opcode": Reject(
        _inside(Ops().raw(b"\x00")), SnapshotError, "byte 0x00 is no pickle opcode"
    ),
    "out-of-band buffers": _broken(Ops().op("NEXT_BUFFER"), "with this opcode", "NEXT_BUFFER"),
    "too few values": _broken(Ops().mark().op("TUPLE2"), "too few values", "TUPLE2"),
    "no MARK": Reject(b"\x80\x04}e.", SnapshotError, "no MARK .byte 3, APPENDS"),
    "MARK under STOP": Reject(b"\x80\x04}(.", SnapshotError, "too few values .byte 4, STOP"),
    "nothing under STOP": Reject(b"\x80\x04.", SnapshotError, "too few values .byte 2, STOP"),
    "odd keys and values": _broken(
        Ops().empty_dict().mark().integer(1).setitems(),
        "no dict for these keys and values",
        "SETITEMS",
    ),
    "append to a number": _broken(
        Ops().integer(1).integer(2).append(), "an item for what is no list.*", "APPEND"
    ),
    "an item of a list": _broken(
        Ops().empty_list().integer(1).integer(2).setitem(), "what is no dict.*", "SETITEM"
    ),
    "a memo entry never stored": _broken(
        Ops().get(300), "memo entry 300 was never stored", "LONG_BINGET"
    ),
    "a memo index of a billion": Reject(
        _inside(Ops().integer(1).put(2**30)), LimitError, "memo_entries is 1073741825, over"
    ),
    "marks without end": Reject(b"\x80\x04" + b"(" * 5_000, LimitError, "nesting_depth is 1001"),
    "a string of 4 GiB": _huge("BINUNICODE", b"\xff\xff\xff\xff"),
    "a string of 16 EiB": _huge("BINUNICODE8", b"\xff" * 8),
    "bytes of 16 EiB": _huge("BINBYTES8", b"\xff" * 8),
    "a bytearray of 16 EiB": _huge("BYTEARRAY8", b"\xff" * 8),
    "a number of 1 GiB": _huge("LONG4", struct.pack("<I", 1 << 30)),
    "settings without end": Reject(
        build.dump(trace(allocator_settings={"a": [0] * ((1 << 22) + 5), "b": 1}), 2),
        LimitError,
        "bytes of kept values is",
    ),
}
