"""json: valid JSON (RFC 8259), NaN and Infinity are read; other invalid JSON is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr


def of_setting(value: str) -> bytes:
    """Return a snapshot whose settings are {"x": <this text>}."""
    return b'{"segments": [], "allocator_settings": {"x": ' + value.encode() + b"}}"


def of_unknown(value: str) -> bytes:
    """Return a snapshot with this text under an unknown key."""
    return b'{"new": [' + value.encode() + b'], "segments": []}'


def of_time(value: str) -> bytes:
    return b'{"device_traces": [[{"action": "alloc", "time_us": ' + value.encode() + b"}]]}"


GOOD = [
    *("0", "-0", "10", "-7", "1.5", "-0.5", "1e5", "1E+5", "1.25e-3", "0e0", "0.0"),
    *("9223372036854775807", "18446744073709551615", "1.7976931348623157e308", "5e-324"),
    *('"a"', '""', '"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\"\\\\"', '"\x7f é"'),
    *("true", "false", "null", "[]", "{}", '[1, [2], {"a": {}}]', " [ 1 , 2 ] ", "\t\r\n1"),
]
BAD = [
    *("01", "-01", "00", "-", "+1", "1.", ".5", "-.5", "1e", "1e+", "1.e5", "0x10", "1_0", "1.5.2"),
    *("nan", "inf", "-inf", "-NaN", "+Infinity", "infinity", "NAN", "Infinit", "InfinityX"),
    *("True", "None", "nul", "tru", "undefined", "'a'", "a", "--1", "1-1", "1+1", "e5", "1f"),
    *('"\n"', '"\t"', '"a\x00"', '"\x1f"', '"\\x41"', '"\\u12"', '"\\ud8g0"', '"\\a"', '"\\\'"'),
    *("[1,]", "[,1]", "[1 2]", '{"a" 1}', '{"a":}', '{"a":1,}', "{1: 2}", "{,}", "[1;2]"),
]


@pytest.mark.parametrize("value", GOOD)
def test_valid_values_are_read(value: str) -> None:
    assert mr.open(of_setting(value)).settings == {"x": json.loads(value)}
    assert mr.open(of_unknown(value)).protocol == -1


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("place", [of_setting, of_unknown])
def test_invalid_json_is_refused(place: Any, value: str) -> None:
    with pytest.raises(mr.SnapshotError, match=r"broken JSON: .*\(byte \d+\)"):
        mr.open(place(value))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_pythons_extensions_to_json_are_read(value: str) -> None:
    assert repr(mr.open(of_setting(value)).settings) == repr({"x": json.loads(value)})
    assert mr.open(of_unknown(value)).protocol == -1
    with pytest.raises(mr.SnapshotError, match="does not fit in 'time_us'"):
        mr.open(of_time(value))


TIMES = [("5", 5), ("5.0", 5), ("5.75", 5), ("-5.25", -6), ("1.7e15", 1_700_000_000_000_000)]


@pytest.mark.parametrize("text, time", TIMES)
def test_times_are_read_in_any_notation(text: str, time: int) -> None:
    assert mr.open(of_time(text)).events.time_us.tolist() == [time]


@pytest.mark.parametrize("text", ["1e19", "-1e19", "1e400", "9.3e18"])
def test_times_beyond_64_bits_are_refused(text: str) -> None:
    with pytest.raises(mr.SnapshotError, match="does not fit in 'time_us'"):
        mr.open(of_time(text))


def test_number_that_is_too_long_is_refused() -> None:
    assert mr.open(of_setting("0." + "3" * 58)).settings == {"x": float("0." + "3" * 58)}
    with pytest.raises(mr.SnapshotError, match="a number that is too long"):
        mr.open(of_setting("0." + "3" * 59))


DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=DATA, pretty=st.booleans(), ascii_only=st.booleans())
def test_python_output_round_trips(value: Any, pretty: bool, ascii_only: bool) -> None:
    whole = {"new": value, "segments": [], "allocator_settings": {"x": value}}
    text = json.dumps(whole, indent=1 if pretty else None, ensure_ascii=ascii_only)
    assert mr.open(text.encode("utf-8")).settings == {"x": value}
