"""Describe a set of ranks."""

from __future__ import annotations

from collections.abc import Iterable


def rank_list_text(ranks: Iterable[int], noun: str = "rank") -> str:
    """List the ranks, e.g. `rank 3` or `ranks 0 to 7, 9`. `noun` replaces the word "rank"."""
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
