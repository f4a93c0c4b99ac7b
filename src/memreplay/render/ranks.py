"""Says which ranks are meant, in words."""

from __future__ import annotations

from collections.abc import Iterable


def ranks_words(ranks: Iterable[int], noun: str = "rank") -> str:
    """`rank 3`, `ranks 0 to 7, 9`; of something else that `noun` is the word for."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][-1] == rank - 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    words = ", ".join(
        f"{run[0]} to {run[-1]}" if run[-1] > run[0] + 1 else ", ".join(map(str, run))
        for run in runs
    )
    several = len(runs) > 1 or (runs and len(runs[0]) > 1)
    return f"{noun}{'s' if several else ''} {words}" if runs else f"no {noun}"
