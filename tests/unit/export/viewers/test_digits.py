"""digits: columns of numbers as text and as varints match Python's own formatting."""

from __future__ import annotations

from google.protobuf.internal import decoder
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.query._vectors import vector
from memreplay.export.viewers.digits import decimal, fraction, lines, packed, varints

int64 = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-20_000, 20_000),
    st.sampled_from((0, -1, 10**4, 10**8, 10**18, 2**63 - 1, -(2**63))),
)


@given(st.lists(int64, min_size=1, max_size=20))
def test_decimal_matches_python(values: list[int]) -> None:
    found = lines(len(values), [b"[", decimal(vector(values)), b"]\n"])
    assert found == b"".join(b"[%d]\n" % value for value in values)


@given(st.lists(st.integers(0, 999), min_size=1, max_size=5))
def test_fractions_have_three_digits(values: list[int]) -> None:
    found = lines(len(values), [b"0", fraction(vector(values)), b" "])
    assert found == b"".join(b"0.%03d " % value for value in values)


@given(st.lists(int64, min_size=1, max_size=20))
def test_varints_decode_to_the_numbers(values: list[int]) -> None:
    planes = varints(vector(values))
    for row, value in zip(zip(*planes, strict=True), values, strict=True):
        assert decoder._DecodeVarint(bytes(row), 0) == (value % 2**64, len(planes))


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), max_size=5))
def test_columns_are_placed_side_by_side(rows: list[tuple[int, int]]) -> None:
    columns = [bytearray(row[i] for row in rows) for i in range(2)]
    found = packed(len(rows), [b"ab", columns, b"", b"c"])
    assert found == b"".join(b"ab%c%cc" % row for row in rows)


def test_no_rows_give_no_bytes() -> None:
    assert lines(0, [b"x", decimal(vector([]))]) == b""
    assert packed(0, [b"x", varints(vector([]))]) == b""
