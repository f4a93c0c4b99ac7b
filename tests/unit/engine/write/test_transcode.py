"""transcode: a pickle converted to another protocol keeps its contents and sharing."""

from __future__ import annotations

import pickle
import pickletools
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.write._converting import Transcoder
from memreplay.errors import SnapshotError
from tests.pickle_ops import Ops
from tests.unit.engine.write.plain_values import streams, values

PROTOCOLS = (2, 3, 4, 5)


def transcoded(data: bytes, protocol: int) -> bytes:
    transcoder = Transcoder(protocol)
    made = transcoder.feed(data)
    assert transcoder.ended
    return made


def loads(data: bytes) -> Any:
    """Read the data with Python's slow unpickler, which checks opcodes against their frames."""
    return pickle._loads(data)  # type: ignore[attr-defined]


def whole(data: bytes) -> bytes:
    """Return a pickle's contents as bytes, which also show which parts are the same object."""
    return pickle.dumps(loads(data), 4)


def stored(*texts: str) -> Ops:
    """Return the start of a list of strings in the memo; its MARK is still open."""
    ops = Ops().proto(2).empty_list().mark()
    for text in texts:
        ops.binunicode(text)
    return ops


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(value=values(), source=st.integers(0, 5))
def test_any_value_keeps_its_contents_and_sharing(protocol: int, value: Any, source: int) -> None:
    data = pickle.dumps(value, source)
    made = transcoded(data, protocol)
    assert made[:2] == bytes([0x80, protocol])
    assert made == transcoded(data, protocol)
    assert whole(made) == whole(data)
    ops = list(pickletools.genops(made))
    assert max(op.proto for op, _, _ in ops) <= protocol
    names = [op.name for op, _, _ in ops]
    assert names.count("PROTO") == 1
    assert ("FRAME" in names) == (protocol >= 4)


@given(value=values(), protocol=st.sampled_from(PROTOCOLS), data=st.data())
def test_chunk_boundaries_do_not_matter(value: Any, protocol: int, data: st.DataObject) -> None:
    pickled = pickle.dumps([value, "x" * 300, 2**80, -1.5], data.draw(st.integers(0, 5)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pickled)), max_size=6)))
    for bounds in ([0, *cuts, len(pickled)], range(len(pickled) + 1)):
        transcoder = Transcoder(protocol)
        made = b"".join(transcoder.feed(pickled[a:b]) for a, b in pairwise(bounds))
        assert made == transcoded(pickled, protocol)
        assert transcoder.ended


@given(data=streams(), protocol=st.sampled_from(PROTOCOLS))
def test_any_opcodes_keep_their_value_or_are_refused(data: bytes, protocol: int) -> None:
    try:
        want = whole(data)
    except Exception:  # pickle raises all kinds of exceptions
        want = b""
    try:
        made = transcoded(data, protocol)
    except SnapshotError:
        # The stack isn't checked here; a GET of a missing entry is refused.
        assert not want
        return
    if want:
        assert whole(made) == want


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_memo_entries_are_renumbered(protocol: int) -> None:
    ops = stored("a").put(7).binunicode("b").put(3).get(7).get(3).binunicode("c").put(7).get(7)
    made = transcoded(bytes(ops.appends().stop()), protocol)
    assert loads(made) == ["a", "b", "a", "b", "c", "c"]
    memo = [
        (op.name, argument)
        for op, argument, _ in pickletools.genops(made)
        if op.name in ("MEMOIZE", "BINPUT", "BINGET")
    ]
    first = [("MEMOIZE", None)] * 2 if protocol >= 4 else [("BINPUT", 0), ("BINPUT", 1)]
    # This entry is stored again and replaces the first.
    assert memo == [*first, ("BINGET", 0), ("BINGET", 1), ("BINPUT", 0), ("BINGET", 0)]


def test_memo_indexes_above_a_byte_use_longer_opcodes() -> None:
    many = [str(i) for i in range(300)]
    data = pickle.dumps([many, many[::-1]], 4)
    for protocol in PROTOCOLS:
        made = transcoded(data, protocol)
        assert whole(made) == whole(data)
        found = {(op.name, arg) for op, arg, _ in pickletools.genops(made) if arg is not None}
        assert ("BINGET", 255) in found
        assert ("LONG_BINGET", 256) in found
        assert (("BINPUT", 255) in found) == (("LONG_BINPUT", 256) in found) == (protocol < 4)
    # Store an entry with a high index again, in a memo without other indexes.
    ops = stored(*many[:1])
    for i in range(300):
        ops.integer(0).put(i)
    made = transcoded(bytes(ops.binunicode("x").put(299).get(299).appends().stop()), 4)
    assert loads(made)[-2:] == ["x", "x"]
    assert ("LONG_BINPUT", 299) in {(op.name, arg) for op, arg, _ in pickletools.genops(made)}


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65_536])
def test_texts_use_the_shortest_opcode(length: int) -> None:
    for source in PROTOCOLS:
        for protocol in PROTOCOLS:
            made = transcoded(pickle.dumps("x" * length, source), protocol)
            assert loads(made) == "x" * length
            short = length < 256 and protocol >= 4
            wanted = "SHORT_BINUNICODE" if short else "BINUNICODE"
            assert wanted in [op.name for op, _, _ in pickletools.genops(made)]


@pytest.mark.parametrize("protocol", [4, 5])
def test_frames_have_a_bounded_size(protocol: int) -> None:
    value = [[str(i), "x" * (i % 300)] for i in range(3_000)]
    made = transcoded(pickle.dumps([value, "y" * 200_000, value], 2), protocol)
    sizes, at = [], 2
    while at < len(made):
        assert made[at] == 0x95
        sizes.append(int.from_bytes(made[at + 1 : at + 9], "little"))
        at += 9 + sizes[-1]
    assert at == len(made)
    assert all((64 << 10) - 9 <= n < (64 << 10) + 400 or n > 200_000 for n in sizes[:-1])
    assert max(sizes) < 300_000
    assert len(sizes) > 8


def test_trailing_data_is_left_out() -> None:
    transcoder = Transcoder(4)
    first = transcoder.feed(b"\x80\x02]")
    ended = transcoder.ended
    assert not ended
    assert first + transcoder.feed(b".]]]") == transcoded(b"\x80\x02].", 4)
    assert transcoder.ended
    assert transcoder.feed(b"\x00more") == b""


def test_truncated_pickle_has_not_ended() -> None:
    assert Transcoder(2).feed(b"") == b"\x80\x02"
    for data in (b"\x8c", b"\x8c\x05abc", b"X\x05\x00", b"\x8d" + b"\xff" * 8 + b"x", b"I12"):
        transcoder = Transcoder(2)
        assert transcoder.feed(data) == b"\x80\x02"
        assert not transcoder.ended


TAG = b"ctorch.jit._pickle\n"


def test_globals_without_an_effect_are_kept() -> None:
    data = b"\x80\x02" + TAG + b"restore_type_tag\n" + b"0" + TAG + b"build_intlist\n" + b"0N."
    assert transcoded(data, 2) == data
    assert loads(transcoded(b"\x80\x02N.", 4)) is None


REFUSED = [
    (b"", b"cos\nsystem\n", "a name that would be imported"),
    (b"", TAG + b"restore_type_tag2\n", "a name that would be imported"),
    (b"", TAG + b"build_intlis\n", "a name that would be imported"),
    (b"", b"ctorch.jit._pickleX\nbuild_intlist\n", "a name that would be imported"),
    *((b"", bytes([op]), "an unsupported opcode") for op in b"PQbio\x81\x82\x83\x84"),
    *((b"N", bytes([op]), "an unsupported opcode") for op in b"\x92\x93\x97\x98\0\xff"),
    (b"", b"h\x00", "a memo index that was never stored"),
    (b"", b"j\x00\x00\x00\x00", "a memo index that was never stored"),
    (b"Nq\x01", b"h\x00", "a memo index that was never stored"),
    (b"", b"g0\n", "a memo index that was never stored"),
    (b"N", b"r\xff\xff\xff\x7f", "a memo index far beyond the file"),
    (b"N", b"p999999999999\n", "a memo index far beyond the file"),
    (b"N", b"p1000000000000\n", "a memo index that isn't a number"),
    (b"N", b"p\n", "a memo index that isn't a number"),
    (b"N", b"p-1\n", "a memo index that isn't a number"),
    (b"N", b"p1x\n", "a memo index that isn't a number"),
    (b"N", b"p:\n", "a memo index that isn't a number"),
]


@pytest.mark.parametrize("before, data, said", REFUSED)
@pytest.mark.parametrize("protocol", [2, 5])
def test_unsafe_or_invalid_opcodes_are_refused(
    before: bytes, data: bytes, said: str, protocol: int
) -> None:
    with pytest.raises(
        SnapshotError, match=rf"not possible in protocol {protocol}: {said}"
    ) as error:
        Transcoder(protocol).feed(b"\x80\x02" + before + data + b".")
    assert error.value.offset == 2 + len(before)
    assert error.value.hint


@pytest.mark.parametrize("index", [0, 1, 3, 4, 5, 100])
def test_memo_index_beyond_the_file_is_refused(index: int) -> None:
    # PROTO and None are 3 bytes, which can't hold more entries.
    data = b"\x80\x02N" + b"q" + bytes([index]) + b"."
    if index <= 3:
        assert loads(transcoded(data, 2)) is None
    else:
        with pytest.raises(SnapshotError, match="far beyond the file"):
            transcoded(data, 2)


LEAST = [
    (b"x", 3, {"SHORT_BINBYTES"}),
    (b"x" * 300, 3, {"BINBYTES"}),
    ({1}, 4, {"EMPTY_SET", "ADDITEMS"}),
    (frozenset([1]), 4, {"FROZENSET"}),
    (bytearray(b"x"), 5, {"BYTEARRAY8"}),
]


@pytest.mark.parametrize("value, least, names", LEAST)
def test_values_unsupported_by_a_protocol_are_refused(
    value: Any, least: int, names: set[str]
) -> None:
    data = pickle.dumps(value, 5)
    assert names <= {op.name for op, _, _ in pickletools.genops(data)}
    for protocol in PROTOCOLS:
        if protocol >= least:
            assert loads(transcoded(data, protocol)) == value
        else:
            with pytest.raises(SnapshotError, match="a kind of value that the protocol doesn't"):
                transcoded(data, protocol)


@pytest.mark.parametrize("name, least", [("BINUNICODE8", 4), ("BINBYTES8", 4)])
def test_eight_byte_lengths_need_a_newer_protocol(name: str, least: int) -> None:
    data = bytes(Ops().proto(4).op(name, (3).to_bytes(8, "little") + b"abc").stop())
    for protocol in PROTOCOLS:
        if protocol >= least:
            assert loads(transcoded(data, protocol)) in ("abc", b"abc")
        else:
            with pytest.raises(SnapshotError):
                transcoded(data, protocol)


@pytest.mark.parametrize("protocol", [-1, 0, 1, 6])
def test_unsupported_protocols_are_refused(protocol: int) -> None:
    with pytest.raises(ValueError, match=str(protocol)):
        Transcoder(protocol)
