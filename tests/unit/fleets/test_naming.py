"""naming: the rank of each file."""

from __future__ import annotations

import pytest

from memreplay.errors import UsageError
from memreplay.fleets.naming import pattern_of, ranks_of_fleet

UNKNOWN = [None, None, None]


def test_number_after_the_word_rank_is_the_rank() -> None:
    names = ["run/rank_10.pkl", "run/rank_2.pkl", "run/notes.pkl"]
    assert ranks_of_fleet(names, [7, 8, 9], None) == ([10, 2, None], "names")


def test_consecutive_numbers_are_the_ranks() -> None:
    names = ["run/a0.pkl", "run/a1.pkl", "run/a2.pkl"]
    assert ranks_of_fleet(names, UNKNOWN, None) == ([0, 1, 2], "names")


def test_ranks_noted_by_the_recorder_are_used() -> None:
    names = ["x.pkl", "y.pkl", "z.pkl"]
    assert ranks_of_fleet(names, [2, 0, None], None) == ([2, 0, None], "recorder")
    # Duplicate ranks show only that each process ran separately.
    assert ranks_of_fleet(names, [0, 0, 0], None) == ([0, 1, 2], "order")


def test_file_order_gives_the_ranks_if_nothing_else_does() -> None:
    assert ranks_of_fleet(["x.pkl", "y.pkl", "z.pkl"], UNKNOWN, None) == ([0, 1, 2], "order")
    assert ranks_of_fleet([], [], None) == ([], "order")


def test_pattern_takes_precedence() -> None:
    names = ["h1/gpu3.pkl", "h2/gpu4.pkl", "h2/other.pkl"]
    found = ranks_of_fleet(names, [7, 8, 9], pattern_of(r"gpu(\d+)"))
    assert found == ([3, 4, None], "pattern")


@pytest.mark.parametrize(
    "pattern, words",
    [
        ("(", "--rank-pattern"),
        ("gpu", "--rank-pattern needs exactly one group"),
        ("(a)(b)", "--rank-pattern needs exactly one group"),
    ],
)
def test_invalid_pattern_is_refused(pattern: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        pattern_of(pattern)


@pytest.mark.parametrize(
    "names, pattern, words",
    [
        (["a1.pkl", "b1.pkl"], r"(\d)", "two files have rank 1, a1.pkl and b1.pkl"),
        (["ax.pkl"], "a(.)", "finds 'x' in ax.pkl, which isn't a rank"),
        (["a1234567890.pkl"], r"(\d+)", ", which isn't a rank"),
        (["d0/rank1.pkl", "d1/rank1.pkl"], None, "two files have rank 1"),
    ],
)
def test_impossible_ranks_are_refused(names: list[str], pattern: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ranks_of_fleet(names, [None] * len(names), None if pattern is None else pattern_of(pattern))
