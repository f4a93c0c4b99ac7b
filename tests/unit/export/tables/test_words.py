"""Tests of export/tables/words.py."""

from __future__ import annotations

import numpy as np

import memreplay._core as _core
from memreplay.export.tables.words import Words

NONE = _core.ABSENT_ID


def test_ids_that_are_used_are_spelled_once() -> None:
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


def test_a_column_that_is_the_same_everywhere() -> None:
    column = np.broadcast_to(np.uint32(3), 10**12)
    assert Words(str, column).column(column[:2]).to_pylist() == ["3", "3"]


def test_columns_that_are_each_the_same_everywhere() -> None:
    every = [np.broadcast_to(np.uint32(i), 9) for i in (3, 5, NONE)]
    words = Words(str, *every)
    for rows in (2, 2, 4, 1, 0):
        for column, word in zip(every, ("3", "5", None), strict=True):
            made = words.column(column[:rows])
            made.validate(full=True)
            assert made.to_pylist() == [word] * rows


def test_none_at_all() -> None:
    column = np.full(2, NONE, dtype=np.uint32)
    assert Words(str, column).column(column).to_pylist() == [None, None]
    empty = np.zeros(0, dtype=np.uint32)
    assert Words(str, empty).column(empty).to_pylist() == []
