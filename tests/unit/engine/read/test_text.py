"""text: opcodes of protocol 0 are read or refused like in pickle."""

from __future__ import annotations

import codecs
import pickle
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from tests import build
from tests.build import SnapshotBuilder


def settings_of(data: bytes) -> Any:
    return mr.open(data).settings


def with_setting(argument: bytes) -> bytes:
    """Return a protocol 0 snapshot whose settings are {"x": <the value that `argument` pushes>}."""
    data = pickle.dumps({"segments": [], "allocator_settings": {"x": 12345}}, 0)
    assert data.count(b"I12345\n") == 1
    return data.replace(b"I12345\n", argument)


VALUES = [
    (b"I0\n", 0),
    (b"I-7\n", -7),
    (b"I+7\n", 7),
    (b"I00\n", False),
    (b"I01\n", True),
    (b"I9223372036854775807\n", 2**63 - 1),
    (b"I-9223372036854775808\n", -(2**63)),
    (b"L5L\n", 5),
    (b"L18446744073709551615L\n", 2**64 - 1),
    (b"L123\n", 123),
    (b"F1.5\n", 1.5),
    (b"F-1e300\n", -1e300),
    (b"S'it'\n", "it"),
    (b'S"it"\n', "it"),
    (rb"S'a\nb\t\\\x41\''" + b"\n", "a\nb\t\\A'"),
    (rb"S'\0\12\101\1013'" + b"\n", "\0\nAA3"),
    (rb"S'\a\b\f\v'" + b"\n", "\a\b\f\v"),
    (b"Vplain\n", "plain"),
    (b"V\\u00e9\\U0001f600 \xe9\n", "é😀 é"),
    (b"Va\\\\u0041\n", "a\\\\u0041"),
]


@pytest.mark.parametrize("argument, value", VALUES, ids=lambda v: repr(v)[:30])
def test_values_are_read_like_in_pickle(argument: bytes, value: Any) -> None:
    data = with_setting(argument)
    assert settings_of(data) == {"x": value}
    assert pickle.loads(data, encoding="latin-1")["allocator_settings"] == {"x": value}


@pytest.mark.parametrize(
    "argument",
    [
        b"I\n",
        b"Iten\n",
        b"I1 2\n",
        b"I017\n",
        b"I-08\n",
        b"I001\n",
        b"L017L\n",
        b"LL\n",
        b"F\n",
        b"Fone\n",
        b"F1.5x\n",
        b"F 1.5\n",
        b"F0x1p3\n",
        b"F1,5\n",
        b"S'\\x4'\n",
        b"Sbare\n",
        b"S'\n",
        b"S'open\\'\n",
        b"S'\\xZZ'\n",
        b"V\\u00\n",
        b"V\\U00110000\n",
        b"g\n",
        b"gx\n",
        b"g-1\n",
    ],
)
def test_malformed_arguments_are_refused(argument: bytes) -> None:
    with pytest.raises(mr.SnapshotError, match=r"\(byte \d+, [A-Z]+\)"):
        mr.open(with_setting(argument))


def test_overflowing_numbers_are_detected() -> None:
    assert settings_of(with_setting(b"L99999999999999999999999L\n")) == {"x": None}
    data = pickle.dumps(SnapshotBuilder().alloc(12345, 1).build(), 0)
    big = data.replace(b"I12345\n", b"L99999999999999999999999L\n")
    assert big != data
    with pytest.raises(mr.SnapshotError, match="does not fit in 'addr'"):
        mr.open(big)


def test_unterminated_line_is_truncated() -> None:
    with pytest.raises(mr.TruncatedError):
        mr.open(with_setting(b"I5\n").split(b"I5")[0] + b"I5")


def test_length_of_an_unterminated_line_is_limited() -> None:
    data = with_setting(b"V" + b"x" * 5000 + b"\n")
    with pytest.raises(mr.LimitError, match="string_bytes"):
        mr.open(data, limits=mr.Limits(string_bytes=1000))


@pytest.mark.parametrize("protocol", range(6))
def test_protocol_is_reported(protocol: int) -> None:
    data = build.dump(SnapshotBuilder().alloc(1, 2).build(), protocol)
    assert mr.open(data).protocol == protocol


TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)


@given(text=TEXTS, number=st.integers(-(2**63), 2**64 - 1), real=st.floats(allow_nan=False))
def test_python_output_round_trips(text: str, number: int, real: float) -> None:
    settings = {"text": text, "number": number, "real": real, "list": [text, None, True]}
    data = pickle.dumps({"segments": [], "allocator_settings": settings}, 0)
    assert settings_of(data) == settings


LITERALS = st.text(st.sampled_from("\\\\\\xuU0178aAbfnrtvdN'\" "), max_size=8)


@given(text=LITERALS)
def test_escapes_match_python(text: str) -> None:
    literal = text.encode() + b"x"  # keeps quotes unescaped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = codecs.escape_decode(literal)[0]
        except ValueError:
            value = None
    data = with_setting(b"S'" + literal + b"'\n")
    if value is None:
        with pytest.raises(mr.SnapshotError, match="a malformed escape"):
            mr.open(data)
    else:
        assert isinstance(value, bytes)
        assert settings_of(data) == {"x": value.decode("utf-8", "replace")}
