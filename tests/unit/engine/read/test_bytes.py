"""Bytes in protocols 0 to 2, which pickle writes as calls, give the same data as in pickle."""

from __future__ import annotations

import contextlib
import io
import pickle
import pickletools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.errors import SnapshotError, UnsafePickleError
from tests import build
from tests.build import SnapshotBuilder
from tests.pickle_ops import Ops

PROTOCOLS = (0, 1, 2)
ENCODE, BYTES = b"_codecs\nencode\n", b"__builtin__\nbytes\n"
KEYS = st.text(max_size=3).map(lambda text: f"x{text}")
VALUES = st.recursive(
    st.binary(max_size=5) | st.none() | st.integers() | st.text(max_size=3) | st.just(b"twice"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


def snapshot() -> dict[str, Any]:
    made = SnapshotBuilder().alloc(4096, 5000).alloc(1 << 20, 700).free(4096, 5000)
    return dict(made.finish_segments().build())


def peak(data: bytes) -> tuple[int, int]:
    snap = mr.open(data)
    return snap.replay(0).peak.bytes, snap.replay(0).end_bytes


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.sampled_from(PROTOCOLS), st.booleans())
def test_bytes_that_pickle_writes_as_calls_are_read(
    items: dict[str, Any], protocol: int, first: bool
) -> None:
    own = snapshot()
    whole = {**items, **own} if first else {**own, **items}
    data = build.dump(whole, protocol)
    assert pickle.loads(data) == whole
    expected = peak(build.dump(own))
    assert peak(data) == expected
    assert peak(pickletools.optimize(data)) == expected


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("value", [b"", b"latin1", b"\xff\n'\\u00e4", b"x" * 100_000])
def test_bytes_in_settings_and_as_keys_are_read(value: bytes, protocol: int) -> None:
    own = snapshot()
    own["allocator_settings"] = {"blob": value, "again": value}
    data = build.dump({"a": value, **own, value: [value, {value: value}]}, protocol)
    assert peak(data) == peak(build.dump(snapshot()))
    assert mr.open(data).settings.keys() == {"blob", "again"}


class Calls(pickle.Unpickler):
    """An unpickler that notes calls, and allows only the two functions with which pickle writes
    bytes.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return self.encode
        if (module, name) == ("builtins", "bytes"):
            return self.empty
        raise pickle.UnpicklingError(f"{module}.{name}")

    @staticmethod
    def encode(*arguments: object) -> bytes:
        if len(arguments) == 2 and isinstance(arguments[0], str) and arguments[1] == "latin1":
            return arguments[0].encode("latin1", "replace")
        raise pickle.UnpicklingError("other arguments")

    @staticmethod
    def empty(*arguments: object) -> bytes:
        if arguments:
            raise pickle.UnpicklingError("arguments")
        return b""


# Whole and broken pieces of calls, to be joined at random.
PIECES = st.sampled_from(
    [
        b"c" + ENCODE, b"c" + BYTES, b"cos\nsystem\n", b"c_codecs\ndecode\n",
        b"(", b"t", b"\x86", b"\x85", b")", b"R", b"q\x40", b"h\x40", b"q\x41", b"h\x41",
        b"X\x01\x00\x00\x00a", b"X\x06\x00\x00\x00latin1", b"X\x05\x00\x00\x00utf-8",
        b"0", b"1", b"2", b"K\x01", b"]", b"a", b"e", b"}",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12))
def test_joined_pieces_of_calls_are_bytes_or_refused(pieces: list[bytes]) -> None:
    """A file that can be read contains only the calls that pickle writes."""
    tail = build.dump(snapshot(), 2)[3:-1]  # after PROTO and EMPTY_DICT, before STOP
    value = b"".join(pieces)
    data = b"\x80\x02}X\x01\x00\x00\x00x" + value + b"s" + tail + b"."
    try:
        found = peak(data)
    except SnapshotError:
        return
    assert found == peak(build.dump(snapshot()))
    with contextlib.suppress(TypeError):  # an unhashable key, which the reader drops
        Calls(io.BytesIO(data)).load()


@pytest.mark.parametrize(
    "call, named",
    [
        (Ops().op("GLOBAL", ENCODE).strings("a", "utf-8").op("TUPLE2").op("REDUCE"), "encode"),
        (Ops().op("GLOBAL", ENCODE).strings("a", "latin1", "x").op("TUPLE3"), "encode"),
        (Ops().op("GLOBAL", ENCODE).string("a").op("TUPLE1").op("REDUCE"), "encode"),
        (Ops().op("GLOBAL", ENCODE).op("EMPTY_TUPLE").op("REDUCE"), "encode"),
        (Ops().op("GLOBAL", ENCODE).empty_list().string("latin1").op("TUPLE2"), "encode"),
        (Ops().op("GLOBAL", ENCODE).strings("a", "latin1").op("TUPLE2").op("BUILD"), "encode"),
        (Ops().op("GLOBAL", ENCODE).strings("a", "latin1").op("TUPLE2").op("NEWOBJ"), "encode"),
        (Ops().op("GLOBAL", BYTES).integer(1 << 40).op("TUPLE1").op("REDUCE"), "bytes"),
        (Ops().op("GLOBAL", BYTES).op("EMPTY_TUPLE").op("NEWOBJ"), "bytes"),
        (Ops().op("GLOBAL", b"__builtin__\nbytearray\n"), "bytearray"),
        (Ops().op("GLOBAL", b"builtins\neval\n"), "eval"),
        (Ops().op("GLOBAL", b"_codecs\nencode_x\n"), "encode_x"),
    ],
)
def test_every_other_call_is_refused(call: Ops, named: str) -> None:
    tail = build.dump(snapshot(), 2)[3:-1]
    data = b"\x80\x02}X\x01\x00\x00\x00x" + bytes(call) + b"s" + tail + b"."
    with pytest.raises(UnsafePickleError, match=rf"{named} .*nothing was executed"):
        mr.open(data)


def test_file_cut_off_at_any_byte_is_an_error() -> None:
    data = build.dump({"a": b"abc", "b": b"", **snapshot()}, 2)
    for end in range(3, data.index(b"segments")):
        with pytest.raises(SnapshotError):
            mr.open(data[:end])
