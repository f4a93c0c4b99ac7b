"""vectors: each operation matches Python's integers and NumPy, for every format and for views."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memreplay.engine.query._recurring import rows_back
from memreplay.engine.query._vectors import (
    Vector,
    chosen,
    constant,
    counting,
    joined,
    joined_rows,
    row_distances,
    vector,
    zeros,
)
from memreplay.engine.write._planes import Folded

RANGES = {
    "?": (0, 1),
    "B": (0, 255),
    "i": (-(2**31), 2**31 - 1),
    "I": (0, 2**32 - 1),
    "q": (-(2**63), 2**63 - 1),
    "Q": (0, 2**64 - 1),
}
DTYPES = {"?": "?", "B": "u1", "i": "i4", "I": "u4", "q": "i8", "Q": "u8"}


def wrapped(value: int, fmt: str = "q") -> int:
    """Return a number modulo 2**64, in the format's range."""
    value %= 2**64
    return value - 2**64 if fmt == "q" and value >= 2**63 else value


def numbers(fmt: str, n: int | None = None) -> st.SearchStrategy[list[int]]:
    """Lists of numbers, often equal, and across chunks of rows if they're long."""
    low, high = RANGES[fmt]
    one = st.integers(max(low, -3), min(high, 3)) | st.integers(low, high)
    if n is not None:
        return st.lists(one, min_size=n, max_size=n)
    return st.lists(one, max_size=40)


@st.composite
def vectors(draw: Any, fmt: str | None = None, n: int | None = None) -> tuple[Vector, list[int]]:
    """A vector, its rows contiguous or not, and the same numbers as a list."""
    fmt = draw(st.sampled_from("?BiIqQ")) if fmt is None else fmt
    values = draw(numbers(fmt, n))
    form = draw(st.sampled_from(["plain", "strided", "reversed", "array"]))
    if form == "plain":
        return vector(values, fmt), values
    if form == "strided":
        return vector([one for value in values for one in (value, 1)], fmt)[::2], values
    if form == "reversed":
        return vector(values[::-1], fmt)[::-1], values
    return vector(np.array(values, DTYPES[fmt]).data), values


@st.composite
def pairs(draw: Any) -> tuple[Vector, list[int], Vector, list[int]]:
    a, first = draw(vectors())
    b, second = draw(vectors(n=len(first)))
    return a, first, b, second


def comparable(a: Vector, b: Vector) -> bool:
    return "Q" not in (a.format, b.format) or not {a.format, b.format} & {"i", "q"}


@given(vectors())
def test_a_vector_has_its_numbers(one: tuple[Vector, list[int]]) -> None:
    of, values = one
    assert of.tolist() == list(of) == values
    assert np.asarray(of).tolist() == values
    assert np.asarray(of).dtype == np.dtype(DTYPES[of.format])
    assert len(of) == len(values)
    assert of.copy().tolist() == values
    assert [of[row] for row in range(-len(values), len(values))] == values + values
    for part in (slice(1, None), slice(None, -1), slice(None, None, -1), slice(5, 2, -2)):
        assert of[part].tolist() == values[part]


@given(vectors(), st.sampled_from("BiIqQ"))
def test_formats_convert_like_numpys(one: tuple[Vector, list[int]], fmt: str) -> None:
    of, values = one
    want = np.array(values, DTYPES[of.format]).astype(DTYPES[fmt]).tolist()
    assert of.as_format(fmt).tolist() == want
    assert joined([of, of], fmt).tolist() == want * 2


@given(pairs())
def test_operators_match_pythons(given: tuple[Vector, list[int], Vector, list[int]]) -> None:
    a, first, b, second = given
    fmt = "Q" if "Q" in (a.format, b.format) else "q"
    for op in (add, sub, mul):
        found = op(a, b)
        assert found.format == fmt
        assert found.tolist() == [
            wrapped(op(x, y), fmt) for x, y in zip(first, second, strict=True)
        ]
    for op in (and_, or_):
        want = [wrapped(op(x, y), fmt) for x, y in zip(first, second, strict=True)]
        assert op(a, b).tolist() == want
        assert (op(a, b).format == "?") == (a.format == b.format == "?")
    unsigned = [(wrapped(x, "Q"), wrapped(y, "Q")) for x, y in zip(first, second, strict=True)]
    assert (a == b).tolist() == [x == y for x, y in unsigned]
    assert (a != b).tolist() == [x != y for x, y in unsigned]
    if comparable(a, b):
        for op in (lt, le, gt, ge, eq, ne):
            assert op(a, b).tolist() == [op(x, y) for x, y in zip(first, second, strict=True)]
        assert a.lower(b).tolist() == list(map(min, first, second))
        assert a.higher(b).tolist() == list(map(max, first, second))
    elif first:
        for op in (lt, le, gt, ge, Vector.lower, Vector.higher):
            with pytest.raises(TypeError, match="unsigned"):
                op(a, b)


@given(vectors(), st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1))
def test_operators_take_numbers(one: tuple[Vector, list[int]], number: int) -> None:
    of, values = one
    fmt = "Q" if of.format == "Q" else "q"
    for op in (add, sub, mul):
        assert op(of, number).tolist() == [wrapped(op(x, number), fmt) for x in values]
    assert (number + of).tolist() == (of + number).tolist()
    assert (number * of).tolist() == (of * number).tolist()
    assert (number - of).tolist() == [wrapped(number - x, fmt) for x in values]
    assert (-of).tolist() == [wrapped(-x, fmt) for x in values]
    if of.format != "Q":
        for op in (lt, le, gt, ge, eq, ne):
            assert op(of, number).tolist() == [op(x, number) for x in values]
        assert abs(of).tolist() == [wrapped(abs(x)) for x in values]
        if number > 0:
            assert (of // number).tolist() == [x // number for x in values]
    elif number >= 0:
        assert (of < number).tolist() == [x < number for x in values]
        assert (of >= number).tolist() == [x >= number for x in values]


@given(vectors("q"), st.integers(0, 63))
def test_shifts_match_pythons(one: tuple[Vector, list[int]], bits: int) -> None:
    of, values = one
    assert (of << bits).tolist() == [wrapped(x << bits) for x in values]
    assert (of >> bits).tolist() == [x >> bits for x in values]


@given(vectors("?"))
def test_flags_can_be_inverted(one: tuple[Vector, list[int]]) -> None:
    of, values = one
    assert (~of).tolist() == [not x for x in values]


@given(vectors("q"), st.floats(0, 4))
def test_scaling_drops_the_fraction(one: tuple[Vector, list[int]], factor: float) -> None:
    of = vector([value % 2**52 for value in one[1]])
    values = of.tolist()
    assert of.scaled(factor).tolist() == [int(x * factor) for x in values]
    assert of.reaches(factor, of[::-1]).tolist() == [
        x >= factor * y for x, y in zip(values, values[::-1], strict=True)
    ]


@given(st.data(), st.integers(-(2**40), 2**40))
def test_highest_number_less_running_sums_matches_pythons(data: st.DataObject, least: int) -> None:
    of, values = data.draw(vectors())
    changes, by = data.draw(vectors(n=len(values)))
    left = (wrapped(x - y) for x, y in zip(values, accumulate(by), strict=True))
    assert of.highest_less(changes, least) == max([*left, least])


def test_highest_number_less_running_sums_spans_chunks() -> None:
    values, changes = counting(5000), vector([k % 7 - 3 for k in range(5000)], "i")
    left = [x - y for x, y in zip(range(5000), accumulate(changes.tolist()), strict=True)]
    assert values.highest_less(changes, 0) == max(left)
    assert values.highest_less(changes, 10**6) == 10**6
    with pytest.raises(ValueError, match="5000 and 4999"):
        values.highest_less(changes[1:], 0)


@given(vectors())
def test_statistics_match_pythons(one: tuple[Vector, list[int]]) -> None:
    of, values = one
    fmt = "Q" if of.format == "Q" else "q"
    assert of.sum() == wrapped(sum(values), fmt)
    assert of.sums().tolist() == [wrapped(x, fmt) for x in accumulate(values)]
    assert of.count() == sum(value != 0 for value in values)
    assert of.any() == any(values)
    assert of.all() == all(values)
    assert of.max(initial=7) == max([*values, 7])
    assert of.min(initial=7) == min([*values, 7])
    if values:
        assert (of.min(), of.max()) == (min(values), max(values))
        assert of.argmax() == values.index(max(values))
        whole = [value % 2**64 for value in values]
        assert of.any_bits() == np.bitwise_or.reduce(np.array(whole, "u8"))
        assert of.all_bits() == np.bitwise_and.reduce(np.array(whole, "u8"))
    else:
        for empty in (of.min, of.max, of.argmax):
            with pytest.raises(ValueError, match="empty"):
                empty()


@given(vectors(), st.data())
def test_extremes_of_parts_match_pythons(
    one: tuple[Vector, list[int]], data: st.DataObject
) -> None:
    of, values = one
    row = st.integers(0, max(0, len(values) - 1))
    starts = sorted(data.draw(st.sets(row, max_size=5))) if values else []
    lowest, highest = of.extremes(starts)
    parts = [range(*ends) for ends in pairwise([*starts, len(values)])]
    # min and max return the first of equal rows
    assert lowest.tolist() == [min(part, key=values.__getitem__) for part in parts]
    assert highest.tolist() == [max(part, key=values.__getitem__) for part in parts]


@given(vectors(), st.data())
def test_rows_are_selected_by_number_and_by_flag(
    one: tuple[Vector, list[int]], data: st.DataObject
) -> None:
    of, values = one
    n = len(values)
    flags = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    mask = vector(list(map(int, flags)), "?")
    assert of[mask].tolist() == [value for value, flag in zip(values, flags, strict=True) if flag]
    assert mask.rows().tolist() == [row for row, flag in enumerate(flags) if flag]
    assert chosen(mask, of, 5).tolist() == [
        wrapped(value) if flag else 5 for value, flag in zip(values, flags, strict=True)
    ]
    if not n:
        return
    rows = data.draw(st.lists(st.integers(-n, n - 1), max_size=20))
    assert of[vector(rows)].tolist() == [values[row] for row in rows]
    assert joined_rows([1], of, vector(rows), "q").tolist() == [
        1, *(wrapped(values[row]) for row in rows)
    ]  # fmt: skip
    changed, want = of.copy(), list(values)
    changed[vector(rows)] = of[vector(rows)][::-1]
    for row, value in zip(rows, [values[row] for row in rows][::-1], strict=True):
        want[row] = value
    assert changed.tolist() == want
    changed[mask] = of[mask][::-1]
    kept = iter([value for value, flag in zip(values, flags, strict=True) if flag][::-1])
    want = [next(kept) if flag else value for value, flag in zip(want, flags, strict=True)]
    assert changed.tolist() == want
    changed[1:] = 1
    assert changed.tolist() == [want[0], *([1] * (n - 1))]
    sums, total = zeros(n), [0] * n
    sums.add_at(vector(rows), vector(rows))
    for row in rows:
        total[row] += row
    assert sums.tolist() == total
    places = vector([row % n for row in rows])
    assert places.counts(n).tolist() == np.bincount(places.tolist(), minlength=n).tolist()


@given(vectors())
def test_sorting_matches_pythons(one: tuple[Vector, list[int]]) -> None:
    of, values = one
    assert of.sorted().tolist() == sorted(values)
    assert of.order().tolist() == sorted(range(len(values)), key=values.__getitem__)
    distinct, places = of.numbered()
    assert distinct.tolist() == of.distinct().tolist() == sorted({*values})
    assert distinct[places].tolist() == values


@given(st.sampled_from("BiIqQ"), st.data())
def test_searching_matches_numpys(fmt: str, data: st.DataObject) -> None:
    of, values = data.draw(vectors(fmt))
    wanted, looked_up = data.draw(vectors(fmt))
    ordered = np.array(sorted(values), DTYPES[fmt])
    asked = np.array(looked_up, DTYPES[fmt])
    assert of.sorted().places(wanted).tolist() == np.searchsorted(ordered, asked).tolist()
    right = np.searchsorted(ordered, asked, side="right").tolist()
    assert of.sorted().places(wanted, right=True).tolist() == right
    assert wanted.is_in(of).tolist() == [value in values for value in looked_up]


@pytest.mark.parametrize("spread", [3, 2**40])
def test_long_columns_match_numpys(spread: int) -> None:
    random = np.random.default_rng(spread)
    values = random.integers(-spread, spread, 10_000)
    other = random.integers(-spread, spread, 10_000)
    a, b = vector(values.data), vector(other.data)
    assert (a + b).tolist() == (values + other).tolist()
    assert (a < b).tolist() == (values < other).tolist()
    assert a.sums().tolist() == np.cumsum(values).tolist()
    assert (a.sum(), a.min(), a.max()) == (values.sum(), values.min(), values.max())
    assert a.argmax() == values.argmax()
    assert a[a > 0].tolist() == values[values > 0].tolist()
    assert (a > 0).rows().tolist() == np.flatnonzero(values > 0).tolist()
    assert a.order().tolist() == np.argsort(values, kind="stable").tolist()
    distinct, places = np.unique(values, return_inverse=True)
    assert [one.tolist() for one in a.numbered()] == [distinct.tolist(), places.tolist()]
    ordered = np.sort(values)
    assert a.sorted().places(b).tolist() == np.searchsorted(ordered, other).tolist()
    assert a.is_in(b[:50]).tolist() == np.isin(values, other[:50]).tolist()
    rows = random.integers(0, 10_000, 10_000)
    assert a[vector(rows.data)].tolist() == values[rows].tolist()
    sums = np.zeros(10_000, np.int64)
    np.add.at(sums, rows, values)
    found = zeros(10_000)
    found.add_at(vector(rows.data), a)
    assert found.tolist() == sums.tolist()
    assert chosen(a > b, a, b).tolist() == np.maximum(values, other).tolist()


def test_rows_of_a_matrix_have_distances() -> None:
    random = np.random.default_rng(7)
    matrix = random.integers(-(10**12), 10**12, (20, 13))
    others = random.integers(0, 20, 9)
    want = np.abs(matrix[others] - matrix[4]).sum(axis=1).tolist()
    assert (
        row_distances(vector(matrix.reshape(-1).data), 13, 4, vector(others.data)).tolist() == want
    )
    with pytest.raises(IndexError):
        row_distances(vector(matrix.reshape(-1).data), 13, 20, vector(others.data))
    with pytest.raises(IndexError):
        row_distances(vector(matrix.reshape(-1).data), 13, 1, vector([20]))


def test_vectors_are_made_of_buffers_without_copies() -> None:
    numbers = array("q", [1, 2, 3])
    of = vector(numbers)
    numbers[0] = 9
    assert of.tolist() == [9, 2, 3]
    assert constant(4, 3, "I").tolist() == [4, 4, 4]
    assert counting(3).tolist() == [0, 1, 2]
    assert vector(b"\x01\x02").tolist() == [1, 2]
    assert joined([[], b"", range(3)], "i").tolist() == [0, 1, 2]


@pytest.mark.parametrize("start", range(8))
@pytest.mark.parametrize("fmt", ["i", "Q"])
def test_numbers_may_have_any_address(start: int, fmt: Literal["i", "Q"]) -> None:
    column = memoryview(bytes(range(200)))[start : start + 56].cast(fmt)
    want = column.tolist()
    assert (vector(column) + 0).tolist() == want
    assert vector(column[::-2])[1:-1].tolist() == want[::-2][1:-1]


def test_wrong_uses_are_errors() -> None:
    of = vector([1, 2, 3])
    with pytest.raises(ValueError, match="lengths"):
        of + vector([1])
    with pytest.raises(ValueError, match="2 values for 3 rows"):
        of[vector([0, 1, 2])] = [1, 2]
    for rows in ([3], [-4], [0, 2**40]):
        with pytest.raises(IndexError):
            of[vector(rows)]
        with pytest.raises(IndexError):
            of[vector(rows)] = 1
        with pytest.raises(IndexError):
            zeros(3).add_at(vector(rows), 1)
        with pytest.raises(IndexError):
            joined_rows([], of, vector(rows), "q")
    for starts in ([-1], [3], [0, 0], [2, 1], [0, 4]):
        with pytest.raises(IndexError):
            of.extremes(starts)
    with pytest.raises(IndexError):
        of[3]
    with pytest.raises(ValueError, match="integers"):
        vector(np.zeros(3).data)
    with pytest.raises(ValueError, match="integers"):
        vector(np.zeros((3, 3), np.int64).data)
    with pytest.raises(ValueError, match="format"):
        zeros(3, "d")
    with pytest.raises(ValueError, match="fewer"):
        zeros(-1)
    with pytest.raises(ValueError, match="fewer"):
        constant(1, -1)
    with pytest.raises(TypeError, match="read-only"):
        vector(array("q", [1]))[0] = 2
    with pytest.raises(TypeError, match="read-only"):
        constant(1, 3)[0] = 2
    with pytest.raises(ValueError, match="consecutive"):
        of[::2] = 1
    assert np.asarray(constant(1, 3)).flags.writeable is False
    with pytest.raises(BufferError, match="read-only"):
        Folded(of[:1], None, False).split(1, constant(1, 1, "B"))
    with pytest.raises(BufferError, match="contiguous"):
        rows_back(vector([1, 2, 3], "Q")[::2])
    with pytest.raises(TypeError, match="inverted"):
        ~of  # noqa: B018
    for wrong in (0, -1, of):
        with pytest.raises((ValueError, TypeError)):
            of // wrong  # type: ignore[operator]
    with pytest.raises(ValueError, match="shifted"):
        of << 64
    with pytest.raises(TypeError, match="signed 64-bit"):
        zeros(3, "I").add_at(of, 1)
    with pytest.raises(TypeError):
        Vector()
    with pytest.raises(IndexError):
        vector([-5]).counts()
    with pytest.raises(OverflowError):
        vector([2**63])
