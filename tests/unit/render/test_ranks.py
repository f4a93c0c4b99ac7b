"""ranks: runs of numbers as text."""

from __future__ import annotations

import pytest

from memreplay.render.ranks import rank_list_text


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
def test_runs_of_ranks_are_abbreviated(ranks: list[int], words: str) -> None:
    assert rank_list_text(ranks) == words
