"""json_values: any JSON becomes a pickle of the value that json.loads returns."""

from __future__ import annotations

import json
import math
import pickle
import pickletools
import random
import struct
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.write._converting import Pickled
from memreplay.errors import SnapshotError
from tests.unit.engine.write.plain_values import TEXTS, lists, values

PROTOCOLS = (2, 3, 4, 5)
BITS = 2**63, 2**64


def pickled(text: bytes, protocol: int = 4) -> bytes:
    return b"".join(Pickled(text, protocol))


def loads(data: bytes) -> Any:
    """Read the data with Python's slow unpickler, which checks opcodes against their frames."""
    return pickle._loads(data)  # type: ignore[attr-defined]


def refused(text: bytes, said: str, offset: int | None = None) -> None:
    with pytest.raises(SnapshotError, match=f"broken JSON: {said}") as error:
        pickled(text)
    assert error.value.offset is not None
    assert 0 <= error.value.offset <= len(text)
    assert offset is None or error.value.offset == offset


def written(value: Any, rng: random.Random) -> str:
    """Return the JSON of a value with varying spaces and escapes."""

    def space() -> str:
        return rng.choice(("", "", " ", "\n\t", "\r "))

    def text(value: str) -> str:
        made = json.dumps(value, ensure_ascii=rng.random() < 0.5)[1:-1]
        if rng.random() < 0.3:
            units = (value.encode("utf-16-be", "surrogatepass").hex(" ", 2)).split()
            made = "".join(rng.choice((f"\\u{unit}", f"\\u{unit.upper()}")) for unit in units)
        return f'"{made}"'

    def spell(value: Any) -> str:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, dict):
            pairs = (f"{space()}{text(key)}{space()}:{space()}{spell(item)}{space()}"
                     for key, item in value.items())  # fmt: skip
            return "{" + (",".join(pairs) or space()) + "}"
        if isinstance(value, (list, tuple)):
            return "[" + (",".join(f"{space()}{spell(v)}{space()}" for v in value) or space()) + "]"
        return json.dumps(value)

    return space() + spell(value) + space()


@given(value=values(), seed=st.integers(0, 999), protocol=st.sampled_from(PROTOCOLS))
def test_any_json_value_is_pickled_as_an_equal_value(value: Any, seed: int, protocol: int) -> None:
    text = written(value, random.Random(seed)).encode("utf-8", "surrogatepass")
    want = json.loads(text)
    assert want == lists(value)
    data = pickled(text, protocol)
    found = loads(data)
    assert lists(found) == want
    assert repr(lists(found)) == repr(want)  # 1 isn't 1.0, and True isn't 1
    assert data == pickled(text, protocol)
    ops = [op for op, _, _ in pickletools.genops(data)]
    assert max(op.proto for op in ops) <= protocol
    assert data[:2] == bytes([0x80, protocol])
    assert ("FRAME" in {op.name for op in ops}) == (protocol >= 4)


TOKENS = st.sampled_from(
    [
        *('"a"', '"\\u00e9"', '"\\ud83d\\ude00"', '"', "\\", "1", "-1", "0", "01", "-", "1.5", "."),
        *("e5", "1e5", "-0", "-01", "00", "NaN", "Infinity", "-Infinity", "-NaN", "nan", "+1"),
        *("true", "false", "null", "nul", "True", "[", "]", "{", "}", ",", ":", " ", "\n", "\0"),
        *('{"a":1}', "[1,2]", '"frames":[', '"pool_id":[0,1]', '"pool_id":[0,', "\x0b", "\xa0"),
        *("18446744073709551615", "18446744073709551616", "-9223372036854775808", "1e999"),
        "-9223372036854775809",
    ]
)


@given(tokens=st.lists(TOKENS, max_size=8), protocol=st.sampled_from(PROTOCOLS))
def test_any_tokens_are_read_or_refused_like_in_python(tokens: list[str], protocol: int) -> None:
    text = "".join(tokens)
    try:
        want = json.loads(text)
    except ValueError:
        with pytest.raises(SnapshotError):
            pickled(text.encode(), protocol)
        return
    try:
        found = loads(pickled(text.encode(), protocol))
    except SnapshotError:
        assert any(is_long(value) for value in flat(want))
        return
    assert repr(lists(found)) == repr(want)


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flat(item)]
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, list) else [value]


def is_long(value: Any) -> bool:
    return type(value) is int and not -BITS[0] <= value < BITS[1]


@given(data=st.binary(max_size=30))
def test_any_bytes_are_refused_or_read_like_in_python(data: bytes) -> None:
    for text in (data, b'["' + data + b'"]'):
        try:
            found = loads(pickled(text))
        except SnapshotError:
            continue
        assert repr(lists(found)) == repr(json.loads(text.removeprefix(b"\xef\xbb\xbf")))


EDGES = sorted({sign * 2**n + d for n in range(65) for sign in (1, -1) for d in (-1, 0, 1)})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_integers_are_as_short_as_in_pickle(protocol: int) -> None:
    for number in EDGES:
        text = str(number).encode()
        if not -BITS[0] <= number < BITS[1]:
            refused(text, "an integer over 64 bits")
            continue
        # Integers of two bytes are all in pickle._pickle's BININT2; protocol 2 has LONG1 as well.
        ours = [(op.name, arg) for op, arg, _ in pickletools.genops(pickled(text, protocol))]
        theirs = [
            (op.name, arg) for op, arg, _ in pickletools.genops(pickle.dumps(number, protocol))
        ]
        assert [one for one in ours if one[0] != "FRAME"] == [
            one for one in theirs if one[0] != "FRAME"
        ]


@given(real=st.floats(allow_nan=False))
def test_floats_are_exact(real: float) -> None:
    for text in {json.dumps(real), f"{real:.30e}" if math.isfinite(real) else json.dumps(real)}:
        found = loads(pickled(text.encode()))
        assert isinstance(found, float)
        assert struct.pack(">d", found) == struct.pack(">d", json.loads(text))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e-999"])
def test_floats_out_of_range_are_read_like_in_python(text: str) -> None:
    assert repr(loads(pickled(text.encode()))) == repr(json.loads(text))


@pytest.mark.parametrize("text", ["01", "-01", "00", "[007]", '{"a": -00}'])
def test_numbers_with_leading_zeros_are_refused(text: str) -> None:
    refused(text.encode(), "an invalid value")


@given(text=TEXTS)
def test_texts_are_read_like_in_python(text: str) -> None:
    for ascii_only in (True, False):
        data = json.dumps(text, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        assert loads(pickled(data)) == json.loads(data)


@pytest.mark.parametrize(
    "inside, want",
    [
        ('\\b\\f\\n\\r\\t\\/\\\\\\"', '\b\f\n\r\t/\\"'),
        ("\\u00E9\\u00e9", "éé"),
        ("\\uD83D\\uDE00\\ud83d\\ude00", "😀😀"),
        ("\\ud83d", "\ud83d"),
        ("\\ude00\\ud83d", "\ude00\ud83d"),
        ("\\ud83d\\ud83d\\ude00", "\ud83d😀"),
        ("\\ud83dx", "\ud83dx"),
        ("\\ud83d\\n", "\ud83d\n"),
        ("\\ud83d\\u0041", "\ud83dA"),
        ("\\udbff\\udfff", "\U0010ffff"),
        ("\\u0000", "\0"),
        ("\x7f", "\x7f"),
    ],
)
def test_escapes_are_read_like_in_python(inside: str, want: str) -> None:
    assert loads(pickled(f'"{inside}"'.encode())) == want == json.loads(f'"{inside}"')


BAD = [
    (b"", "a missing value", 0),
    (b" ", "a missing value", 1),
    (b"\xef\xbb\xbf", "a missing value", 3),
    (b'"a', "an unterminated string", 0),
    (b'"a\\', "an unterminated string", 0),
    (b'"a\\"', "an unterminated string", 0),
    (b'"a\n"', "a control character in a text", 0),
    (b'"\\\n"', "an unknown escape", None),
    (b'"\\a"', "an unknown escape", None),
    (b'"\\u12"', "a .u without four digits", None),
    (b'"\\u12g4"', "a .u without four digits", None),
    (b'"\\uD83D\\u12"', "a .u without four digits", None),
    (b'"\xff"', "text that is not UTF-8", None),
    (b'"\xf4\x90\x80\x80"', "text that is not UTF-8", None),
    (b"[1", "an unterminated container", 2),
    (b'{"a": 1', "an unterminated container", 7),
    (b"[1 2]", "a missing comma", 3),
    (b"[1}", "a missing comma", 2),
    (b"[1,]", "an invalid value", 3),
    (b"[", "an unterminated container", 1),
    (b"[,1]", "an invalid value", 1),
    (b"[1,", "a missing value", 3),
    (b"{1: 2}", "a key that isn't a string", 1),
    (b'{"a": 1,}', "a key that isn't a string", 8),
    (b"{", "an unterminated container", 1),
    (b'{"a"', "a key without a colon", 4),
    (b'{"a" 1}', "a key without a colon", 5),
    (b'{"a":', "a missing value", 5),
    (b"1 2", "text after the end", 2),
    (b"nulls", "text after the end", 4),
    (b"[] ]", "text after the end", 3),
    (b'{"frames": [{"a": 1', "an unterminated object", 12),
    (b'{"frames": [{"a": "}"', "an unterminated object", 12),
    (b'{"frames": [{"a": "\\', "an unterminated object", 12),
]


@pytest.mark.parametrize("text, said, offset", BAD)
def test_invalid_json_is_refused(text: bytes, said: str, offset: int | None) -> None:
    with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)):
        json.loads(text.removeprefix(b"\xef\xbb\xbf"))
    refused(text, said, offset)


def test_numbers_have_at_most_sixty_characters() -> None:
    assert loads(pickled(b"1." + b"5" * 58)) == 1.5555555555555556
    for text in (b"1." + b"5" * 59, b"1" * 61, b"1" * 5_000):
        refused(text, "an invalid value", 0)


def test_nesting_beyond_the_limit_is_refused() -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        most = opening * 1023 + b"[]" + closing * 1023
        value = loads(pickled(most))
        for _ in range(1023):
            (value,) = value if isinstance(value, list) else value.values()
        assert value == []
        refused(opening * 1025 + closing * 1025, "more than 1,024 nested levels")


@pytest.mark.parametrize("n", [0, 1, 999, 1_000, 1_001, 2_000, 2_001])
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_thousand_items_are_appended_at_a_time(n: int, protocol: int) -> None:
    for value in ([0] * n, {str(i): 0 for i in range(n)}):
        data = pickled(json.dumps(value).encode(), protocol)
        assert loads(data) == value
        names = Counter(op.name for op, _, _ in pickletools.genops(data))
        assert names["APPENDS"] + names["SETITEMS"] == names["MARK"] == max(1, -(-n // 1000))


@pytest.mark.parametrize("protocol", [4, 5])
def test_chunks_and_frames_have_a_bounded_size(protocol: int) -> None:
    value = [str(i) * 20 for i in range(20_000)] + ["x" * 200_000] + [[i, {}] for i in range(9_000)]
    chunks = list(Pickled(json.dumps(value).encode(), protocol))
    data = b"".join(chunks)
    assert loads(data) == value
    assert len(chunks) > 1
    assert all(1 << 20 <= len(chunk) < (1 << 20) + 300_000 for chunk in chunks[:-1])
    sizes, at = [], 2
    while at < len(data):
        assert data[at] == 0x95
        sizes.append(int.from_bytes(data[at + 1 : at + 9], "little"))
        at += 9 + sizes[-1]
    assert at == len(data)
    assert all((64 << 10) - 9 <= n < 66_000 or n > 200_000 for n in sizes[:-1])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_texts_are_written_once(protocol: int) -> None:
    names = [f"name {i}" for i in range(400)]
    data = pickled(json.dumps([names, names, dict.fromkeys(names, "name 0")]).encode(), protocol)
    first, second, keyed = loads(data)
    assert first == second == names == list(keyed)
    assert all(a is b for a, b in zip(first, second, strict=True))
    texts = Counter(arg for op, arg, _ in pickletools.genops(data) if "UNICODE" in op.name)
    assert set(texts.values()) == {1}
    ops = Counter(op.name for op, _, _ in pickletools.genops(data))
    assert ops["BINGET"] == 2 * 256 + 400
    assert ops["LONG_BINGET"] == 2 * (400 - 256)
    if protocol < 4:
        assert (ops["BINPUT"], ops["LONG_BINPUT"]) == (256, 144)
    else:
        assert ops["MEMOIZE"] == 400


FRAME = '{"name": "f }", "line": 1}'


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_equal_frames_are_written_once(protocol: int) -> None:
    other = '{"line": 1, "name": "f }"}'
    text = f'[{{"frames": [{FRAME}, {other}]}}, {{"frames": [{FRAME}, {FRAME}]}}, {FRAME}]'
    (one, two), (three, four), loose = (
        item.get("frames", item) for item in loads(pickled(text.encode(), protocol))
    )
    assert one is three
    assert one is four
    assert one == two == loose
    assert one is not two
    assert one is not loose


@pytest.mark.parametrize(
    "text",
    [
        '{"frames": [{"a": []}, {"a": []}]}',
        '{"frames": [{"a": {}}, {"a": {}}]}',
        '{"frames": [[{"a": 1}], [{"a": 1}]]}',
        '{"frame": [{"a": 1}, {"a": 1}]}',
        '{"frames": {"frames": {"a": 1}, "more": {"a": 1}}}',
        '{"frames": [], "x": [{"a": 1}, {"a": 1}]}',
    ],
)
def test_other_dicts_are_not_shared(text: str) -> None:
    value = loads(pickled(text.encode()))
    assert value == json.loads(text)
    found = list(containers(value))
    assert len({id(one) for one in found}) == len(found)


def containers(value: Any) -> Any:
    if isinstance(value, (dict, list, tuple)):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


POOLS = [
    *(("[0, 1]", (0, 1)), ("[ 0 , 1 ]", (0, 1)), ("[-1,18446744073709551615]", (-1, 2**64 - 1))),
    *((text, json.loads(text)) for text in ("[]", "[0]", "[0, 1, 2]", "[0.5, 1]", "[0, 1e5]")),
    *((text, json.loads(text)) for text in ('["a", 1]', "[[0], 1]", "[0, null]", "{}", "1")),
    *((text, json.loads(text)) for text in ("[0, [1]]", "[[0, 1], [0, 1]]", '{"a": [0, 1]}')),
]


@pytest.mark.parametrize("text, want", POOLS)
def test_pool_ids_become_tuples(text: str, want: Any) -> None:
    for key in ("pool_id", "segment_pool_id"):
        found = loads(pickled(f'{{"{key}": {text}, "pool_ids": [0, 1]}}'.encode()))
        assert repr(found) == repr({key: want, "pool_ids": [0, 1]})
    assert loads(pickled(b"[[0, 1]]")) == [[0, 1]]


@pytest.mark.parametrize("text", ["[0, 1", "[0,", "[0 1]", "[-, 1]", "[0, 1x]", "[0, 1,]"])
def test_pairs_that_are_not_pool_ids_stay_lists(text: str) -> None:
    with pytest.raises(SnapshotError, match="broken JSON"):
        pickled(f'{{"pool_id": {text}'.encode())
    for number in (2**64, -(2**63) - 1):
        refused(f'{{"pool_id": [0, {number}]}}'.encode(), "an integer over 64 bits")


def test_byte_order_mark_is_ignored() -> None:
    assert loads(pickled(b"\xef\xbb\xbf [1]\r\n")) == [1]


def test_last_of_duplicate_keys_wins() -> None:
    assert loads(pickled(b'{"a": 1, "b": 2, "a": 3}')) == {"a": 3, "b": 2}


@pytest.mark.parametrize("protocol", [-1, 0, 1, 6])
def test_unsupported_protocols_are_refused(protocol: int) -> None:
    with pytest.raises(ValueError, match=str(protocol)):
        Pickled(b"[]", protocol)
