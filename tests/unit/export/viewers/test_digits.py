"""digits: columns of numbers as text and as varints match Python's own formatting."""

from __future__ import annotations

import numpy as np
from google.protobuf.internal import decoder
from hypothesis import given
from hypothesis import strategies as st

from memreplay.export.viewers.digits import decimal, lines, packed, three, varints

int64 = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-20_000, 20_000),
    st.sampled_from((0, -1, 10**4, 10**8, 10**18, 2**63 - 1, -(2**63))),
)


@given(st.lists(int64, min_size=1, max_size=20))
def test_decimal_matches_python(values: list[int]) -> None:
    found = lines(len(values), [b"[", decimal(np.array(values, dtype=np.int64)), b"]\n"])
    assert found == b"".join(b"[%d]\n" % value for value in values)


@given(st.lists(st.integers(0, 999), min_size=1, max_size=5))
def test_three_digits_are_padded_with_zeros(values: list[int]) -> None:
    found = lines(len(values), [three(np.array(values)), b" "])
    assert found == b"".join(b"%03d " % value for value in values)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=20))
def test_varints_decode_to_the_numbers(values: list[int]) -> None:
    rows = varints(np.array(values, dtype=np.int64))
    for row, value in zip(rows, values, strict=True):
        assert decoder._DecodeVarint(row.tobytes(), 0) == (value, rows.shape[1])


def test_no_rows_give_no_bytes() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert lines(0, [b"x", decimal(empty)]) == b""
    assert packed(0, [b"x", varints(empty)]).tobytes() == b""
