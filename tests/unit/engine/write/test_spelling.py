"""spelling: a pickle of plain data becomes JSON that Python reads as the same value."""

from __future__ import annotations

import json
import math
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.write._converting import Spelled
from memreplay.errors import LimitError, SnapshotError
from tests.pickle_ops import Ops
from tests.unit.engine.write.plain_values import NUMBERS, TEXTS, lists, streams, values


def spelled(data: bytes) -> bytes:
    return b"".join(Spelled(data))


def of(*ops: Ops) -> Any:
    """Return the value of the JSON that is written for a pickle of these opcodes."""
    return json.loads(spelled(b"\x80\x04" + b"".join(map(bytes, ops)) + b"."))


def refused(data: bytes, said: str, offset: int | None = None) -> None:
    with pytest.raises(SnapshotError, match=f"not possible in JSON: {said}") as error:
        spelled(data)
    assert error.value.hint
    assert offset is None or error.value.offset == offset


def firsts_are_tuples(value: Any) -> bool:
    """Return whether any tuple starts with another, which can't be written as JSON."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple) and value[0]:
        return True
    if isinstance(value, dict):
        return any(map(firsts_are_tuples, value.values()))
    return isinstance(value, (list, tuple)) and any(map(firsts_are_tuples, value))


def in_json(value: Any) -> Any:
    """Return the value after a round trip through Python's JSON, which reads two adjacent
    surrogates as one character.
    """
    return json.loads(json.dumps(lists(value)))


@given(value=values(), protocol=st.sampled_from([2, 3, 4, 5]))
def test_any_value_is_spelled_as_equal_json(value: Any, protocol: int) -> None:
    data = pickle.dumps(value, protocol)
    try:
        text = spelled(data)
    except SnapshotError:
        assert firsts_are_tuples(value)
        return
    assert json.loads(text) == in_json(value)
    assert text.isascii()
    assert b"\0" not in text
    assert text == spelled(data)


@given(data=streams())
def test_any_opcodes_are_spelled_or_refused(data: bytes) -> None:
    try:
        want = pickle.loads(data)
    except Exception:  # pickle raises all kinds of exceptions
        with pytest.raises(SnapshotError):
            spelled(data)
        return
    try:
        text = spelled(data)
    except SnapshotError:
        return
    assert json.loads(text) == in_json(want)


@given(number=NUMBERS)
def test_integers_of_any_opcode_are_spelled(number: int) -> None:
    assert of(Ops().integer(number)) == number
    for width in range(number.bit_length() // 8 + 1, 12):
        assert of(Ops().long1(number, width)) == number
        long4 = struct.pack("<I", width) + number.to_bytes(width, "little", signed=True)
        assert of(Ops().op("LONG4", long4)) == number


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 2**80, -(2**80), 2**64 + 5, -(2**64)])
def test_integers_beyond_64_bits_are_refused(number: int) -> None:
    for width in range(number.bit_length() // 8 + 1, 14):
        refused(b"\x80\x04" + bytes(Ops().long1(number, width)) + b".", "an integer over", 2)


def test_empty_integer_is_zero() -> None:
    assert of(Ops().op("LONG1", b"\x00")) == 0
    assert of(Ops().op("LONG4", bytes(4))) == 0


@given(real=st.floats())
def test_floats_are_spelled_exactly(real: float) -> None:
    found = of(Ops().op("BINFLOAT", struct.pack(">d", real)))
    if math.isnan(real):
        assert math.isnan(found)
    else:
        assert struct.pack(">d", found) == struct.pack(">d", real)
        assert isinstance(found, float)


@given(text=TEXTS)
def test_texts_of_any_opcode_are_spelled(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert of(Ops().string(text)) == json.loads(json.dumps(text))
    assert of(Ops().binunicode(text)) == json.loads(json.dumps(text))
    long = Ops().op("BINUNICODE8", struct.pack("<Q", len(data)) + data)
    assert of(long) == json.loads(json.dumps(text))


def test_python_2_strings_must_be_ascii() -> None:
    assert of(Ops().op("SHORT_BINSTRING", b"\x03abc")) == "abc"
    assert of(Ops().op("BINSTRING", b"\x03\0\0\0abc")) == "abc"
    for bad in (b"U\x02\xc3\xa9", b"T\x02\0\0\0\xc3\xa9"):
        refused(b"\x80\x02" + bad + b".", "bytes of Python 2", 2)
    refused(b"\x80\x02U\x01\x80.", "text that is not UTF-8", 2)
    refused(b"\x80\x02X\x01\0\0\0\xff.", "text that is not UTF-8", 2)


SHARED = [
    (Ops().empty_list().memoize().integer(1).append(), [1]),
    (Ops().empty_dict().memoize().string("a").integer(1).setitem(), {"a": 1}),
    (Ops().mark().integer(1).integer(2).op("TUPLE").memoize(), [1, 2]),
    (Ops().integer(1).integer(2).op("TUPLE2").memoize(), [1, 2]),
    (Ops().integer(1).op("TUPLE1").memoize(), [1]),
    (Ops().mark().integer(1).integer(2).op("LIST").memoize(), [1, 2]),
    (Ops().mark().string("a").integer(2).op("DICT").memoize(), {"a": 2}),
    (Ops().string("x").memoize(), "x"),
    (Ops().op("NEWTRUE").memoize(), True),
    (Ops().op("EMPTY_TUPLE").memoize(), []),
    (Ops().empty_list().memoize(), []),
    (Ops().empty_dict().memoize(), {}),
]


@pytest.mark.parametrize("ops, want", SHARED)
def test_get_copies_its_value(ops: Ops, want: Any) -> None:
    """The value may be on the stack, at its top or not, or already part of another value."""
    get = Ops().get(0)
    seven, mark, appends = Ops().integer(7), Ops().mark(), Ops().appends()
    assert of(seven, ops, get, Ops().op("TUPLE3")) == [7, want, want]
    assert of(mark, ops, seven, get, Ops().op("TUPLE")) == [want, 7, want]
    outer = Ops().empty_list()
    assert of(outer, ops, Ops().append(), get, Ops().append()) == [want, want]
    assert of(outer, mark, ops, seven, appends, mark, get, get, appends) == ([want, 7, want, want])
    inner = Ops().empty_dict().string("k")
    inside = [ops, Ops().setitem().append()]
    assert of(outer, inner, *inside, get, Ops().append()) == [{"k": want}, want]


def test_only_a_string_from_the_memo_may_be_a_key() -> None:
    ops = Ops().empty_list().string("k").memoize().append().empty_dict().get(0).integer(1)
    assert of(ops.setitem().append()) == ["k", {"k": 1}]
    not_a_text = Ops().empty_list().integer(1).memoize().append().empty_dict().get(0).integer(1)
    refused(b"\x80\x04" + bytes(not_a_text.setitem()) + b".", "a key that isn't a string")


def test_memo_entry_may_be_overwritten() -> None:
    ops = Ops().empty_list().string("a").put(0).append().string("b").put(0).append().get(0)
    assert of(ops.append()) == ["a", "b", "b"]
    # MEMOIZE counts entries, not stores.
    ops = Ops().empty_list().string("a").put(0).append().string("b").put(0).append()
    assert of(ops.string("c").memoize().append().get(1).append()) == ["a", "b", "c", "c"]


def test_items_may_come_in_several_parts() -> None:
    ops = Ops().empty_list().mark().appends().mark().integer(1).appends().integer(2).append()
    assert of(ops.mark().appends().mark().integer(3).integer(4).appends()) == [1, 2, 3, 4]
    ops = Ops().empty_dict().mark().setitems().mark().string("a").integer(1).setitems()
    assert of(ops.string("b").integer(2).setitem().mark().string("c").integer(3).setitems()) == (
        {"a": 1, "b": 2, "c": 3}
    )
    assert of(Ops().mark().op("TUPLE")) == of(Ops().mark().op("LIST")) == []
    assert of(Ops().mark().op("DICT")) == {}
    made_by_list = Ops().mark().integer(1).op("LIST").integer(2).append()
    assert of(made_by_list) == [1, 2]


HEAD = Ops().empty_list().memoize()
STACK = [
    (Ops().integer(1).append(), "items without a container", 4),
    (Ops().empty_dict().integer(1).append(), "items without a container", 5),
    (Ops().empty_list().string("a").integer(1).setitem(), "items without a container", 8),
    (Ops().appends(), "items without a container", 2),
    (Ops().mark().appends(), "items without a container", 3),
    (Ops().op("TUPLE"), "no MARK on the stack", 2),
    (Ops().op("TUPLE1"), "a tuple with more items than the stack", 2),
    (Ops().integer(1).op("TUPLE2"), "a tuple with more items than the stack", 4),
    (Ops().mark().integer(1).op("TUPLE2"), "a tuple with more items than the stack", 5),
    (Ops().memoize(), "nothing to memoise", 2),
    (Ops().mark().memoize(), "nothing to memoise", 3),
    (Ops().empty_dict().mark().string("a").setitems(), "a key without a value", 7),
    (Ops().mark().string("a").op("DICT"), "a key without a value", 6),
    (Ops().empty_dict().mark().integer(1).integer(2).setitems(), "a key that isn't a string", 8),
    (Ops().empty_list().mark().mark().appends().integer(1), "items without a container", 5),
    (Ops(), "more than one value", 2),
    (Ops().integer(1).integer(2), "more than one value", 6),
    (Ops().mark(), "more than one value", 3),
    (Ops().get(0), "a memo index that was never stored", 2),
    (Ops().integer(1).put(9), "a memo index far beyond the file", 4),
    (Ops().integer(1).put(0).put(1), "a value that is memoised twice", 6),
    (HEAD.raw(b"h\0").append(), "a container that contains itself, or changes after its use", 6),
]


@pytest.mark.parametrize("ops, said, offset", STACK)
def test_invalid_use_of_the_stack_is_refused(ops: Ops, said: str, offset: int) -> None:
    refused(b"\x80\x04" + bytes(ops) + b".", said, offset)


def test_container_that_changes_after_use_is_refused() -> None:
    ops = Ops().empty_list().empty_list().memoize().get(0).raw(b"0")
    refused(b"\x80\x04" + bytes(ops) + b".", "a value that JSON doesn't support")
    ops = Ops().empty_list().mark().empty_list().memoize().get(0).integer(1).append()
    refused(b"\x80\x04" + bytes(ops.appends()) + b".", "items without a container")
    ops = Ops().empty_list().memoize().empty_list().get(0).append().append()
    assert pickle.loads(b"\x80\x04" + bytes(ops) + b".")
    refused(b"\x80\x04" + bytes(ops) + b".", "a container that contains itself, or changes")


@pytest.mark.parametrize(
    "data",
    [b"C\x01x", b"\x8f", b"\x96" + bytes(8), b"0", b"2", b"I1\n", b"Va\n", b"L5L\n", b"F1\n"],
)
def test_values_unsupported_by_json_are_refused(data: bytes) -> None:
    refused(b"\x80\x05N" + data + b".", "a value that JSON doesn't support, or an opcode", 3)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x04", b"\x80\x04]", b"\x80\x04\x8c\x05ab"])
def test_self_references_are_refused(data: bytes) -> None:
    refused(data, "an unsupported opcode")


def test_json_much_longer_than_the_pickle_is_refused() -> None:
    big = Ops().empty_list().mark().string("x" * 10_000).memoize()
    for _ in range(10_000):
        big.get(0)
    data = b"\x80\x04" + bytes(big.appends()) + b"."
    with pytest.raises(LimitError, match="more than 100 times as long as the pickle") as error:
        spelled(data)
    assert error.value.hint


def test_chunks_have_a_mebibyte() -> None:
    value: list[Any] = ["x" * 1_000, (1, [{}])] * 4_000
    chunks = list(Spelled(pickle.dumps(value, 4)))
    assert [len(chunk) for chunk in chunks[:-1]] == [1 << 20] * 3
    assert 0 < len(chunks[-1]) <= 1 << 20
    assert json.loads(b"".join(chunks)) == lists(value)


def test_very_deep_lists_are_spelled() -> None:
    data = b"\x80\x04" + b"]" * 200_000 + b"a" * 199_999 + b"."
    assert spelled(data) == b"[" * 200_000 + b"]" * 200_000
    data = b"\x80\x04)" + b"\x85" * 2 + b"."
    refused(data, "a tuple that begins with a tuple")
