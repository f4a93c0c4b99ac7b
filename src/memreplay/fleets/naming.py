"""Which rank each file of a fleet is of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memreplay.analysis.comparing.rank_names import ranks_of, says_rank
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.fleets.result import RankSource

_MOST_DIGITS = 9


def pattern_of(text: str) -> re.Pattern[str]:
    """`--rank-pattern` as an expression with the rank as its one group. Raises UsageError."""
    try:
        found = re.compile(text)
    except re.error as error:
        raise UsageError(f"--rank-pattern: {error}") from None
    if found.groups != 1:
        raise UsageError("--rank-pattern needs one group, as in 'gpu([0-9]+)': the rank's number")
    return found


def ranks_by_pattern(names: Sequence[str], pattern: re.Pattern[str]) -> list[int | None]:
    """The number that the pattern finds in each name; None where it finds none. Raises UsageError
    for what is no number, and for a rank that is there twice."""
    found = numbers_by_pattern(names, pattern)
    check_once(names, found)
    return found


def numbers_by_pattern(names: Sequence[str], pattern: re.Pattern[str]) -> list[int | None]:
    """The same, of files of which several may be of one rank."""
    found: list[int | None] = []
    for name in names:
        match = pattern.search(name)
        text = None if match is None else match[1]
        if text is not None and not (text.isdecimal() and len(text) <= _MOST_DIGITS):
            raise UsageError(f"--rank-pattern finds {text[:20]!r} in {name}, which is no rank")
        found.append(None if text is None else int(text))
    return found


def ranks_by_name(names: Sequence[str]) -> list[int | None] | None:
    """The rank that each name tells; None where the names tell none. Where they say the word rank,
    what is wrong with that is a UsageError: as that one has two files."""
    if not names:
        return None
    try:
        found, _ = ranks_of(names)
    except UsageError:
        if any(map(says_rank, names)):
            raise
        return None
    by_name = {name: rank for rank, name in found.items()}
    return [by_name.get(name) for name in names]


def ranks_of_fleet(
    names: Sequence[str], noted: Sequence[int | None], pattern: re.Pattern[str] | None
) -> tuple[list[int | None], RankSource]:
    """The rank of each file: by the pattern, else by the names, else by what the recorder noted in
    each, else by their order. Raises UsageError where a rank is there twice."""
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
    """Raise UsageError where two files are of one rank."""
    first: dict[int, str] = {}
    for name, rank in zip(names, ranks, strict=True):
        if rank is None:
            continue
        if rank in first:
            raise UsageError(
                f"two files have rank {rank}, {first[rank]} and {name}; each rank has one file"
            )
        first[rank] = name
