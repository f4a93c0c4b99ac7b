"""naming: which rank each file is of."""

from __future__ import annotations

import pytest

from memreplay.errors import UsageError
from memreplay.fleets.naming import pattern_of, ranks_of_fleet

UNKNOWN = [None, None, None]


def test_the_word_rank_in_the_names() -> None:
    names = ["run/rank_10.pkl", "run/rank_2.pkl", "run/notes.pkl"]
    assert ranks_of_fleet(names, [7, 8, 9], None) == ([10, 2, None], "names")


def test_numbers_that_count_up() -> None:
    names = ["run/a0.pkl", "run/a1.pkl", "run/a2.pkl"]
    assert ranks_of_fleet(names, UNKNOWN, None) == ([0, 1, 2], "names")


def test_what_the_recorder_noted() -> None:
    names = ["x.pkl", "y.pkl", "z.pkl"]
    assert ranks_of_fleet(names, [2, 0, None], None) == ([2, 0, None], "recorder")
    # The same one twice says nothing: each process was alone.
    assert ranks_of_fleet(names, [0, 0, 0], None) == ([0, 1, 2], "order")


def test_the_order_where_nothing_else_tells() -> None:
    assert ranks_of_fleet(["x.pkl", "y.pkl", "z.pkl"], UNKNOWN, None) == ([0, 1, 2], "order")
    assert ranks_of_fleet([], [], None) == ([], "order")


def test_a_pattern() -> None:
    names = ["h1/gpu3.pkl", "h2/gpu4.pkl", "h2/other.pkl"]
    found = ranks_of_fleet(names, [7, 8, 9], pattern_of(r"gpu(\d+)"))
    assert found == ([3, 4, None], "pattern")


@pytest.mark.parametrize(
    "pattern, words",
    [("(", "--rank-pattern"), ("gpu", "needs one group"), ("(a)(b)", "needs one group")],
)
def test_what_is_no_pattern(pattern: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        pattern_of(pattern)


@pytest.mark.parametrize(
    "names, pattern, words",
    [
        (["a1.pkl", "b1.pkl"], r"(\d)", "two files have rank 1, a1.pkl and b1.pkl"),
        (["ax.pkl"], "a(.)", "finds 'x' in ax.pkl, which is no rank"),
        (["a1234567890.pkl"], r"(\d+)", "which is no rank"),
        (["d0/rank1.pkl", "d1/rank1.pkl"], None, "two files have rank 1"),
    ],
)
def test_ranks_that_cannot_be(names: list[str], pattern: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ranks_of_fleet(names, [None] * len(names), None if pattern is None else pattern_of(pattern))
