"""Pickles that misuse the pickle machine, request too much memory, or contain calls."""

from __future__ import annotations

import struct

from memreplay import LimitError, SnapshotError, TruncatedError, UnsafePickleError
from tests import bad_files, build
from tests.conformance.cases import EVENT, Reject, trace
from tests.pickle_ops import Ops

_GOOD = build.dump(trace(EVENT))
_PLACE = r" \(byte \d+, {}\)"


def _framed(more: int) -> bytes:
    """Return a valid pickle in one frame whose length is off by `more` bytes."""
    content = build.unframe(_GOOD)[2:]
    return b"\x80\x04\x95" + struct.pack("<Q", (len(content) + more) % 2**64) + content


def _inside(ops: Ops) -> bytes:
    """Return a pickle with `ops` as the value of an unknown key."""
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
    for name, data in bad_files.unsafe_pickles().items()
}
_CALLS = {
    f"a call, protocol {protocol}{', inside' if inside else ''}": Reject(
        bad_files.calls_function(protocol, inside),
        UnsafePickleError,
        r"load or call os\.system \(byte",
    )
    for protocol in (2, 4)
    for inside in (False, True)
}

_TAG = b"torch.jit._pickle\nrestore_type_tag\n"
_INTS = b"torch.jit._pickle\nbuild_intlist\n"


def _misused(ops: Ops, opcode: str, name: str = "restore_type_tag") -> Reject:
    return Reject(
        _inside(ops),
        UnsafePickleError,
        rf"load or call torch\.jit\._pickle\.{name}" + _PLACE.format(opcode),
    )


def _tag() -> Ops:
    return Ops().op("GLOBAL", _TAG)


def _ints() -> Ops:
    return Ops().op("GLOBAL", _INTS)


_INERT = {
    "a tag of a text": _misused(_tag().strings("a", "b").op("TUPLE2").op("REDUCE"), "TUPLE2"),
    "a tag that is no text": _misused(
        _tag().empty_list().integer(1).op("TUPLE2").op("REDUCE"), "TUPLE2"
    ),
    "a tag of nothing": _misused(_tag().op("EMPTY_TUPLE").op("REDUCE"), "REDUCE"),
    "a tag of a list alone": _misused(_tag().empty_list().op("TUPLE1").op("REDUCE"), "TUPLE1"),
    "a tag of three": _misused(
        _tag().empty_list().strings("a", "b").op("TUPLE3").op("REDUCE"), "TUPLE3"
    ),
    "a tag that is not called": _misused(_tag(), "SETITEMS"),
    "a tag in a tuple": _misused(_tag().op("TUPLE1"), "TUPLE1"),
    "a tag in a list": _misused(Ops().empty_list().raw(bytes(_tag())).append(), "APPEND"),
    "a tag in a list, by APPENDS": _misused(
        Ops().empty_list().mark().raw(bytes(_tag())).appends(), "APPENDS"
    ),
    "a tag that is dropped": _misused(_tag().op("POP"), "POP"),
    "a tag that is doubled": _misused(_tag().op("DUP"), "DUP"),
    "a tag that is built": _misused(_tag().empty_dict().op("BUILD"), "BUILD"),
    "a tag that makes an object": _misused(_tag().op("EMPTY_TUPLE").op("NEWOBJ"), "NEWOBJ"),
    "a tag whose tuple is not called with": _misused(
        _tag().empty_list().string("a").op("TUPLE2").put(5).op("REDUCE"), "TUPLE2"
    ),
    "a tag of a tag": _misused(_tag().raw(bytes(_tag())).string("a").op("TUPLE2"), "TUPLE2"),
    "a tag of the memo": _misused(
        _tag().put(7).empty_list().string("a").op("TUPLE2").op("REDUCE").get(7).op("POP"), "POP"
    ),
    "a tag under STOP": _misused(_tag().empty_list().op("POP").op("STOP"), "STOP"),
    "an int list of a dict": _misused(
        _ints().mark().empty_dict().op("TUPLE").op("REDUCE"), "TUPLE", "build_intlist"
    ),
    "an int list of two": _misused(
        _ints().mark().empty_list().empty_list().op("TUPLE").op("REDUCE"), "TUPLE", "build_intlist"
    ),
    "an int list that is dropped": _misused(
        _ints().mark().empty_list().op("TUPLE").op("POP"), "TUPLE", "build_intlist"
    ),
    "a tag, nearly": Reject(
        _inside(Ops().op("GLOBAL", b"torch.jit._pickle\nrestore_type_tags\n")),
        UnsafePickleError,
        r"load or call torch\.jit\._pickle\.restore_type_tags .*GLOBAL",
    ),
    "a tag of another module": Reject(
        _inside(Ops().op("GLOBAL", b"torch.jit\nrestore_type_tag\n")),
        UnsafePickleError,
        r"load or call torch\.jit\.restore_type_tag .*GLOBAL",
    ),
    "a tag by STACK_GLOBAL": Reject(
        _inside(Ops().strings("torch.jit._pickle", "restore_type_tag").op("STACK_GLOBAL")),
        UnsafePickleError,
        r"load or call torch\.jit\._pickle\.restore_type_tag .*STACK_GLOBAL",
    ),
    "a NumPy number": Reject(
        _inside(Ops().op("GLOBAL", b"numpy.core.multiarray\nscalar\n")),
        UnsafePickleError,
        r"load or call numpy\.core\.multiarray\.scalar .*GLOBAL",
    ),
    "cut off before the call": Reject(
        _inside(_tag().empty_list().string("a").op("TUPLE2"))[:-2],
        TruncatedError,
        r"need 2 bytes, 1 left" + _PLACE.format("TUPLE2"),
    ),
}

CASES: dict[str, Reject] = {
    **_UNSAFE,
    **_INERT,
    **_CALLS,
    "cut off": Reject(_GOOD[:-1], TruncatedError, r"truncated pickle: need 1 byte, 0 left"),
    "cut off in a string": Reject(
        _GOOD[: _GOOD.index(b"device_traces") + 3],
        TruncatedError,
        r"need 15 bytes, 5 left" + _PLACE.format("SHORT_BINUNICODE"),
    ),
    "PROTO only": Reject(b"\x80\x04", TruncatedError, "need 1 byte, 0 left"),
    "half a PROTO": Reject(b"\x80", TruncatedError, "need 2 bytes, 1 left"),
    "a protocol to come": Reject(b"\x80\x07N.", SnapshotError, "unknown pickle protocol 7 .*PROTO"),
    "a FRAME past the end": Reject(
        _framed(1), SnapshotError, r"a FRAME that ends after the pickle does .*STOP"
    ),
    "a FRAME of 16 EiB": Reject(
        _framed(2**64 - 1 - len(_GOOD)),
        SnapshotError,
        r"a FRAME longer than any possible file .*FRAME",
    ),
    "no opcode": Reject(
        _inside(Ops().raw(b"\x00")), SnapshotError, "byte 0x00 is not a pickle opcode"
    ),
    "out-of-band buffers": _broken(Ops().op("NEXT_BUFFER"), "this opcode", "NEXT_BUFFER"),
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
        Ops().integer(1).integer(2).append(),
        "an item appended to something that isn't a list.*",
        "APPEND",
    ),
    "an item of a list": _broken(
        Ops().empty_list().integer(1).integer(2).setitem(),
        "something that isn't a dict.*",
        "SETITEM",
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
