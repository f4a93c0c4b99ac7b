"""vm: each opcode has its effect, and each kind of broken pickle is refused."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest

import memreplay as mr
from tests import bad_files, build
from tests.build import SnapshotBuilder
from tests.pickle_ops import Ops
from tests.unit.engine.parts import close_trace, named, open_trace, setting, value_of

INTEGERS = (0, 1, 255, 256, 65535, 65536, 2**31 - 1, -1, -(2**31), 2**31, 2**63 - 1, -(2**63))


def small() -> bytes:
    builder = SnapshotBuilder(user_metadata={"step": 1})
    builder.alloc(4096, 100, frames=[("f", "a.py", 1), ("main", "b.py", 2)], pool_id=(0, 1))
    builder.free(4096, 100).annotation("step", "START").settings(limit=2.5)
    return build.dump(builder.finish_segments([(0, 9999, 5)]).build())


def refused(data: bytes, message: str, kind: type[mr.SnapshotError] = mr.SnapshotError) -> None:
    with pytest.raises(kind, match=message) as caught:
        mr.open(data)
    assert type(caught.value) is kind
    assert caught.value.offset is not None
    assert 0 <= caught.value.offset <= len(data)


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", INTEGERS)
def test_integers_are_read(value: int) -> None:
    assert value_of(Ops().integer(value)) == value


@pytest.mark.parametrize("width", range(1, 13))
def test_long1_may_have_any_width(width: int) -> None:
    for value in (0, 1, -1, 127, -128):
        assert value_of(Ops().long1(value, width)) == value


def test_empty_long1_is_zero() -> None:
    assert value_of(Ops().op("LONG1", b"\0")) == 0


def test_long1_beyond_64_bits_is_not_kept() -> None:
    assert value_of(Ops().long1(2**63, 9)) == 2**63
    assert value_of(Ops().long1(2**64 - 1, 9)) == 2**64 - 1
    assert value_of(Ops().long1(2**64, 9)) is None  # too large for any column: not kept
    assert value_of(Ops().long1(-(2**63), 9)) == -(2**63)
    assert value_of(Ops().long1(-(2**63) - 1, 9)) is None


def test_long4_is_read() -> None:
    for value in (0, -5, 2**62):
        data = value.to_bytes(20, "little", signed=True)
        assert value_of(Ops().op("LONG4", struct.pack("<I", 20) + data)) == value
    assert value_of(Ops().op("LONG4", struct.pack("<I", 0))) == 0


@pytest.mark.parametrize("value", [0.0, -1.5, 1e300, math.inf])
def test_floats_are_read(value: float) -> None:
    assert value_of(Ops().op("BINFLOAT", struct.pack(">d", value))) == value


def test_constants_are_read() -> None:
    assert value_of(Ops().op("NONE")) is None
    assert value_of(Ops().op("NEWTRUE")) is True
    assert value_of(Ops().op("NEWFALSE")) is False


@pytest.mark.parametrize(
    "text",
    ["", "a", "é训练😀", "x" * 255, "y" * 256, "z" * 70_000],
    ids=["empty", "a", "wide", "255", "256", "70,000"],
)
def test_strings_of_every_opcode_are_read(text: str) -> None:
    data = text.encode()
    n = len(data)
    assert value_of(Ops().string(text)) == text
    assert value_of(Ops().binunicode(text)) == text
    assert value_of(Ops().op("BINUNICODE8", struct.pack("<Q", n) + data)) == text
    assert value_of(Ops().op("BINSTRING", struct.pack("<i", n) + data)) == text
    if n < 256:
        assert value_of(Ops().op("SHORT_BINSTRING", bytes([n]) + data)) == text


def test_invalid_utf8_is_replaced_and_surrogates_kept() -> None:
    assert value_of(Ops().op("SHORT_BINUNICODE", b"\x02a\xff")) == "a\ufffd"
    assert value_of(Ops().string("\ud800")) == "\ud800"


def test_tuples_are_stored_as_lists() -> None:
    kept: dict[Ops, Any] = {
        Ops().op("EMPTY_TUPLE"): [],
        Ops().string("a").op("TUPLE1"): ["a"],
        Ops().string("a").string("b").op("TUPLE2"): ["a", "b"],
        Ops().strings("a", "b", "c").op("TUPLE3"): ["a", "b", "c"],
        Ops().mark().strings("a", "b", "c", "d").op("TUPLE"): ["a", "b", "c", "d"],
        Ops().mark().string("a").op("LIST"): ["a"],
    }
    for ops, want in kept.items():
        assert value_of(ops) == want


def test_bytes_and_sets_are_read_and_dropped() -> None:
    dropped = [
        Ops().op("SHORT_BINBYTES", b"\x02ab"),
        Ops().op("BINBYTES", struct.pack("<I", 2) + b"ab"),
        Ops().op("BINBYTES8", struct.pack("<Q", 2) + b"ab"),
        Ops().op("BYTEARRAY8", struct.pack("<Q", 2) + b"ab"),
        Ops().op("EMPTY_SET").mark().string("a").op("ADDITEMS"),
        Ops().mark().string("a").op("FROZENSET"),
    ]
    for ops in dropped:
        assert value_of(ops) is None


def test_pair_of_integers_is_kept() -> None:
    assert value_of(Ops().integer(1).integer(2).op("TUPLE2")) == [1, 2]
    assert value_of(Ops().mark().integer(-1).integer(2**40).op("TUPLE")) == [-1, 2**40]


def test_lists_and_dicts_are_read_in_every_form() -> None:
    assert value_of(Ops().empty_list()) == []
    assert value_of(Ops().mark().op("LIST").integer(1).append()) == [1]
    assert value_of(Ops().empty_list().mark().appends()) == []
    assert value_of(Ops().empty_list().integer(1).append().mark().integer(2).appends()) == [1, 2]
    assert value_of(Ops().empty_dict()) == {}
    assert value_of(Ops().mark().op("DICT").string("a").integer(1).setitem()) == {"a": 1}
    batches = Ops().empty_dict().mark().string("a").integer(1).setitems()
    batches.mark().string("b").integer(2).string("a").integer(3).setitems()
    assert value_of(batches.string("c").empty_list().setitem()) == {"a": 3, "b": 2, "c": []}


def test_lists_in_batches_of_a_thousand_are_read() -> None:
    builder = SnapshotBuilder()
    for i in range(2_500):
        builder.alloc(i * 512, i + 1)
    builder.finish_segments()
    snap = mr.open(build.dump(builder.build()))
    assert snap.events.size.tolist() == list(range(1, 2_501))
    assert len(snap.segments) == 2_500


# ---- stack and memo ------------------------------------------------------------------------------


def test_pop_and_dup_change_the_stack() -> None:
    assert value_of(Ops().integer(1).integer(2).op("POP")) == 1
    assert value_of(Ops().integer(1).mark().op("POP")) == 1
    assert value_of(Ops().integer(1).mark().integer(2).op("POP_MARK")) == 1
    assert value_of(Ops().integer(3).op("DUP").op("TUPLE2")) == [3, 3]


def test_memo_entries_are_stored_and_read() -> None:
    assert value_of(Ops().integer(7).put(3).op("POP").get(3)) == 7
    assert value_of(Ops().integer(7).put(3).op("POP").integer(8).put(3).op("POP").get(3)) == 8
    assert value_of(Ops().string("a").put(400).op("POP").get(400)) == "a"
    assert value_of(Ops().long1(2**63, 9).memoize().op("POP").get(0)) == 2**63
    # As in pickle, MEMOIZE counts the entries that are set, whatever the highest index is.
    counted = Ops().integer(7).put(9).op("POP").integer(8).memoize().op("POP").get(1)
    assert value_of(counted) == 8


def test_shared_values_are_read_in_each_place() -> None:
    inner = Ops().empty_list().memoize().integer(5).append()
    shared = Ops().empty_list().mark().raw(bytes(inner)).get(0).get(0).appends()
    assert value_of(shared) == [[5], [5], [5]]


def test_memo_index_beyond_the_input_is_refused() -> None:
    refused(setting(Ops().integer(7).put(2**31)), "memo_entries is", mr.LimitError)


@pytest.mark.parametrize(
    "ops, message",
    [
        (Ops().get(0), r"memo entry 0 was never stored \(byte \d+, BINGET\)"),
        (Ops().get(70_000), r"memo entry 70000 was never stored \(byte \d+, LONG_BINGET\)"),
        (Ops().integer(1).put(5).get(4), "memo entry 4 was never stored"),
        (Ops().op("TUPLE2"), r"too few values \(byte \d+, TUPLE2\)"),
        (Ops().mark().op("DUP"), r"too few values \(byte \d+, DUP\)"),
        (Ops().mark().memoize(), r"too few values \(byte \d+, MEMOIZE\)"),
        (Ops().mark().append(), r"too few values \(byte \d+, APPEND\)"),
        (Ops().integer(1).setitem(), "something that isn't a dict|too few values"),
        (Ops().mark().integer(1).setitems(), r"no dict for these keys and values"),
        (Ops().mark().mark().appends(), r"no list below the MARK \(byte \d+, APPENDS\)"),
        (Ops().integer(1).integer(2).append(), "an item appended to something that isn't a list"),
        (Ops().mark().raw(b"."), r"too few values \(byte \d+, STOP\)"),
        (Ops().op("PROTO", b"\x06"), r"unknown pickle protocol 6 \(byte \d+, PROTO\)"),
        (Ops().raw(b"\xff"), r"byte 0xff is not a pickle opcode \(byte \d+\)"),
        (Ops().op("NEXT_BUFFER"), r"snapshots don't use this opcode .*NEXT_BUFFER"),
        (Ops().op("READONLY_BUFFER"), r"snapshots don't use this opcode"),
        (Ops().op("LONG4", b"\xff\xff\xff\xff"), r"LONG4"),
    ],
    ids=lambda v: v if isinstance(v, str) else bytes(v).hex(),
)
def test_broken_pickles_name_the_byte_and_the_opcode(ops: Ops, message: str) -> None:
    refused(setting(ops), message)


def test_error_has_the_position_of_the_opcode() -> None:
    data = Ops().proto(4).empty_dict().mark().get(9).stop()
    with pytest.raises(mr.SnapshotError) as caught:
        mr.open(bytes(data))
    assert (caught.value.offset, caught.value.opcode) == (4, "BINGET")


def test_pop_mark_without_a_mark_is_refused() -> None:
    refused(b"\x80\x041.", r"no MARK \(byte 2, POP_MARK\)")


# ---- truncation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [build.dump, build.dump_cpp, lambda s: build.dump(s, 0)])
def test_every_prefix_is_truncated(write: Any) -> None:
    builder = SnapshotBuilder(compile_context="N/A", user_metadata={"a": 1})
    builder.alloc(4096, 100, frames=[("f", "a.py", 1)]).free(4096, 100)
    data = write(builder.finish_segments([(0, 2**40, 5)]).settings(x=1.5).build())
    mr.open(data)
    for cut in bad_files.truncations(data):
        if not cut:
            continue
        with pytest.raises(mr.TruncatedError) as caught:
            mr.open(cut)
        # If only a few bytes are left, the container reports that there are too few.
        assert len(cut) < 8 or (caught.value.offset or 0) <= len(cut)


def test_truncation_says_how_much_is_missing() -> None:
    data = Ops().proto(4).empty_dict().mark().op("BINUNICODE8", struct.pack("<Q", 100) + b"abc")
    with pytest.raises(mr.TruncatedError) as caught:
        mr.open(bytes(data))
    assert "need 109 bytes, 12 left (byte 4, BINUNICODE8)" in str(caught.value)


def test_data_after_stop_is_ignored() -> None:
    assert mr.open(small() + b"anything \xff").native.n_events == 3
    assert mr.open(small() + b"anything").stream_bytes == len(small())


# ---- unsafe --------------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", sorted(bad_files.unsafe_pickles()))
def test_unsafe_opcodes_are_rejected(opcode: str) -> None:
    data = bad_files.unsafe_pickles()[opcode]
    with pytest.raises(mr.UnsafePickleError) as caught:
        mr.open(data)
    if opcode in ("GLOBAL", "STACK_GLOBAL", "REDUCE", "NEWOBJ", "NEWOBJ_EX", "OBJ", "INST"):
        assert "load or call os.system" in str(caught.value)
    assert caught.value.opcode is not None


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("inside", [False, True])
def test_calls_are_refused_anywhere(protocol: int, inside: bool) -> None:
    with pytest.raises(mr.UnsafePickleError, match=r"os\.system"):
        mr.open(bad_files.calls_function(protocol, inside))


def test_long_and_unprintable_globals_are_shortened() -> None:
    data = b"\x80\x02c" + b"m" * 300 + b"\n" + b"n" * 300 + b"\n."
    refused(data, r"load or call m{200,}", mr.UnsafePickleError)
    refused(b"\x80\x02ca\x1b[2J\nb\x07\n.", r"load or call a\?\[2J\.b\?", mr.UnsafePickleError)
    two = Ops().proto(4).string("m" * 200).string("n" * 200).op("STACK_GLOBAL").stop()
    refused(bytes(two), r"call m{100}\.n{100} ", mr.UnsafePickleError)
    refused(b"\x80\x04\x93.", "load or call code", mr.UnsafePickleError)
    refused(b"\x80\x02cos\nsys", "load or call os.sys", mr.UnsafePickleError)


# ---- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits, name",
    [
        (mr.Limits(nesting_depth=3), "nesting_depth"),
        (mr.Limits(string_bytes=10), "string_bytes"),
        (mr.Limits(stack_values=5), "stack_values"),
        (mr.Limits(memo_entries=10), "memo_entries"),
        (mr.Limits(kept_values=1), "kept_values"),
    ],
)
def test_exceeded_limits_are_errors(limits: mr.Limits, name: str) -> None:
    with pytest.raises(mr.LimitError, match=rf"{name} is \d+, over the limit of \d+") as caught:
        mr.open(small(), limits=limits)
    assert caught.value.offset is not None
    assert "--limit " in str(caught.value)


def test_sufficient_limits_give_no_error() -> None:
    limits = mr.Limits(
        nesting_depth=8, string_bytes=64, stack_values=64, memo_entries=200, kept_values=20
    )
    assert mr.open(small(), limits=limits).native.n_events == 3


def test_false_length_allocates_no_memory() -> None:
    for head in (Ops().op("BINBYTES8", b"\xff" * 8), Ops().op("BINUNICODE8", b"\xff" * 8)):
        refused(setting(head), "string_bytes is", mr.LimitError)


def test_deep_nesting_without_marks_exceeds_the_limit() -> None:
    depth = 50_000
    ops = Ops().raw(b"]" * depth + b"a" * (depth - 1))
    # Deep lists are read without recursion; only values that become Python data must be shallow.
    with pytest.raises(mr.LimitError, match="allocator settings"):
        value_of(ops)


# ---- framing and windows -------------------------------------------------------------------------


def test_frames_may_not_extend_past_the_pickle() -> None:
    data = small()
    assert mr.open(build.unframe(data)).native.n_events == 3
    assert mr.open(build.reframe(data, 1)).native.n_events == 3
    at = data.index(b"\x95")
    (length,) = struct.unpack_from("<Q", data, at + 1)

    def lying(length: int) -> bytes:
        return data[: at + 1] + struct.pack("<Q", length) + data[at + 9 :]

    # Python's C unpickler accepts frames that are too short, too, because it only reads ahead.
    for less in (1, 7, length):
        assert mr.open(lying(length - less)).native.n_events == 3
    with pytest.raises(mr.SnapshotError, match="ends after the pickle does"):
        mr.open(lying(length + 1))
    with pytest.raises(mr.SnapshotError, match="longer than any possible file"):
        mr.open(lying(2**63))


def test_string_may_be_longer_than_the_window() -> None:
    ops = Ops().proto(4).empty_dict().mark().string("segments").empty_list()
    text = "é" * (3 << 19)
    ops.string("allocator_settings").empty_dict().mark().string("x").binunicode(text)
    ops.setitems().setitems().stop()
    assert mr.open(bytes(ops)).settings["x"] == text


@pytest.mark.parametrize("shift", range(0, 40, 3))
def test_windows_may_end_anywhere(shift: int) -> None:
    ops = open_trace(named().string("x" * (2**20 - 3_000 + shift * 17)).op("POP"))
    for i in range(300):
        ops.empty_dict().mark().get(0).get(4).get(1).long1(2**40 + i, 8).get(2).integer(i)
        ops.get(7).long1(2**50 + i, 8).setitems()
    snap = mr.open(close_trace(ops, padding=80))
    assert snap.events.size.tolist() == list(range(300))
    assert snap.events.address.tolist() == [2**40 + i for i in range(300)]
    assert snap.events.time_us.tolist() == [2**50 + i for i in range(300)]
    assert snap.native.fast_events > 280
