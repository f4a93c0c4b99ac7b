"""Find the rank of each file in a fleet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memreplay.analysis.comparing.rank_names import names_a_rank, ranks_of
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.fleets.result import RankSource

_MOST_DIGITS = 9


def pattern_of(text: str) -> re.Pattern[str]:
    """Compile `--rank-pattern`, whose only group is the rank. Raises UsageError."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise UsageError(f"--rank-pattern: {error}") from None
    if found.groups != 1:
        raise UsageError("--rank-pattern needs exactly one group for the rank, as in 'gpu([0-9]+)'")
    return found


def ranks_by_pattern(names: Sequence[str], pattern: re.Pattern[str]) -> list[int | None]:
    """Return the rank that the pattern finds in each name, or None.

    Raises UsageError for non-numbers and duplicate ranks.
    """
    found = numbers_by_pattern(names, pattern)
    check_once(names, found)
    return found


def numbers_by_pattern(names: Sequence[str], pattern: re.Pattern[str]) -> list[int | None]:
    """Like `ranks_by_pattern`, but allows several files per rank."""
    found: list[int | None] = []
    for name in names:
        match = pattern.search(name)
        text = None if match is None else match[1]
        if text is not None and not (text.isdecimal() and len(text) <= _MOST_DIGITS):
            raise UsageError(f"--rank-pattern finds {text[:20]!r} in {name}, which isn't a rank")
        found.append(None if text is None else int(text))
    return found


def ranks_by_name(names: Sequence[str]) -> list[int | None] | None:
    """Return each name's rank; None if the names contain no ranks.

    Raises UsageError for inconsistencies (e.g. duplicates) if the names contain the word rank.
    """
    if not names:
        return None
    try:
        found, _ = ranks_of(names)
    except UsageError:
        if any(map(names_a_rank, names)):
            raise
        return None
    by_name = {name: rank for rank, name in found.items()}
    return [by_name.get(name) for name in names]


def ranks_of_fleet(
    names: Sequence[str], noted: Sequence[int | None], pattern: re.Pattern[str] | None
) -> tuple[list[int | None], RankSource]:
    """Return each file's rank: from the pattern, the names, the recorder's notes, or the order.

    Raises UsageError for duplicate ranks.
    """
    if pattern is not None:
        return ranks_by_pattern(names, pattern), "pattern"
    named = ranks_by_name(names)
    if named is not None:
        return named, "names"
    told = [rank for rank in noted if rank is not None]
    if told and len(set(told)) == len(told):
        return list(noted), "recorder"
    return list(range(len(names))), "order"


def check_once(names: Sequence[str], ranks: Sequence[int | None]) -> None:
    """Raise UsageError if two files have the same rank."""
    first: dict[int, str] = {}
    for name, rank in zip(names, ranks, strict=True):
        if rank is None:
            continue
        if rank in first:
            raise UsageError(
                f"two files have rank {rank}, {first[rank]} and {name}; pass one file per rank"
            )
        first[rank] = name
