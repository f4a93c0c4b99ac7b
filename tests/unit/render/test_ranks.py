"""ranks: runs of numbers in words."""

from __future__ import annotations

import pytest

from memreplay.render.ranks import ranks_words


@pytest.mark.parametrize(
    "ranks, words",
    [
        ([], "no rank"),
        ([3], "rank 3"),
        ([4, 3], "ranks 3, 4"),
        ([3, 4, 5], "ranks 3 to 5"),
        ([0, 2, 3, 9, 10, 11], "ranks 0, 2, 3, 9 to 11"),
    ],
)
def test_ranks_in_words(ranks: list[int], words: str) -> None:
    assert ranks_words(ranks) == words
