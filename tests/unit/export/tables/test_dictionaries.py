"""Tests of export/tables/dictionaries.py."""

from __future__ import annotations

import numpy as np

import memreplay._core as _core
from memreplay.export.tables.dictionaries import Words

NONE = _core.ABSENT_ID


def test_used_ids_are_decoded_once() -> None:
    asked: list[int] = []

    def spell(i: int) -> str | None:
        asked.append(i)
        return None if i == 4 else f"w{i}"

    ids = np.array([7, NONE, 4, 2, 7], dtype=np.uint32)
    words = Words(spell, ids)
    assert asked == [2, 4, 7]
    column = words.column(ids)
    column.validate(full=True)
    assert column.to_pylist() == ["w7", None, None, "w2", "w7"]


def test_slice_of_a_constant_column_has_the_columns_word() -> None:
    column = np.broadcast_to(np.uint32(3), 10**12)
    assert Words(str, column).column(column[:2]).to_pylist() == ["3", "3"]


def test_several_constant_columns_share_a_dictionary() -> None:
    every = [np.broadcast_to(np.uint32(i), 9) for i in (3, 5, NONE)]
    words = Words(str, *every)
    for rows in (2, 2, 4, 1, 0):
        for column, word in zip(every, ("3", "5", None), strict=True):
            made = words.column(column[:rows])
            made.validate(full=True)
            assert made.to_pylist() == [word] * rows


def test_column_without_values_is_null_or_empty() -> None:
    column = np.full(2, NONE, dtype=np.uint32)
    assert Words(str, column).column(column).to_pylist() == [None, None]
    empty = np.zeros(0, dtype=np.uint32)
    assert Words(str, empty).column(empty).to_pylist() == []
