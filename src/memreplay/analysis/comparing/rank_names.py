"""Find each file's rank from the file names."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from memreplay.analysis.comparing.layouts import parsed_by_layout, rank_by_siblings, stems_of
from memreplay.errors import UsageError
from memreplay.io.names import bare

# `rank7`, `Rank_7`, `rank-07`. If a name has both `local_rank3` and `rank12`, the latter is used. A
# LoRA rank is a matrix size, not a process.
_RANK = re.compile(r"(?<!lora)(?<!lora[-_. ])(local)?[-_. ]?rank[-_. =]*([0-9]+)", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
# Keywords before numbers that aren't ranks, although they can also count from 0.
_COUNTED = re.compile(
    r"(?:^|[^a-z])(attempt|batch|bs|bucket|ctx|dim|epoch|fold|head|iter|iteration|layer|lora|lr|run|"
    r"seed|seq|size|step|trial|try|v|version)s?[-_. =]*\Z",
    re.IGNORECASE,
)
# Keywords before numbers that distinguish processes if there are no ranks.
_WHOSE = re.compile(
    r"(?:^|[^a-z])(gpu|cuda|xpu|device|node|host|worker|proc|process|pid|[cdept]p)[-_. =]*\Z",
    re.IGNORECASE,
)
_MOST_DIGITS = 9  # longer numbers are times or ids
_SHOWN = 3  # maximum number of names listed in an error
_LONGEST = 60  # maximum length of a listed name, in characters


def ranks_of(names: Sequence[str]) -> tuple[dict[int, str], tuple[str, ...]]:
    """Return each rank's file, in order, and if some names have a rank, the names without one.

    The rank comes from a known trainer's layout, otherwise it's the number after `rank` in the file
    name or its folder. If no name has a rank, the only number that differs between names is used.
    That number must count from 0 without gaps (sizes and steps don't), and no keyword may say that
    it counts something else. `names`: distinct paths with `/`. Raises UsageError if a rank is
    ambiguous, duplicate or missing.
    """
    said = _said(names)
    is_said = any(said.values())
    if is_said:
        unranked = tuple(name for name in names if not said[name])
        ranked = [name for name in names if said[name]]
        numbers = _telling(ranked, [said[name] for name in ranked])
    else:
        unranked, ranked = (), list(names)
        numbers = _telling(ranked, _all_numbers(ranked))
    found: dict[int, str] = {}
    for rank, name in sorted(zip(numbers, ranked, strict=True)):
        if rank in found:
            raise UsageError(
                f"two files have rank {rank}, {_short(found[rank])} and {_short(name)}; pass"
                " the folder of a single dump"
            )
        found[rank] = name
    if not is_said and found:
        _check_counted(found)
    return found, unranked


def missing_ranks(there: Collection[int], known: Collection[int] = ()) -> tuple[int, ...]:
    """Return the ranks below the highest one that have no file.

    `known`: ranks that have files elsewhere. If most are missing, the numbers aren't ranks, so
    return only missing `known` ones.
    """
    some = {*there, *known}
    most = max(some, default=-1)
    if most >= 2 * len(some) + 8:
        return tuple(sorted(set(known).difference(there)))
    return tuple(rank for rank in range(most + 1) if rank not in there)


def names_a_rank(name: str) -> bool:
    """Return whether a name contains "rank" with a number, so that its rank needn't be guessed."""
    return bool(_after_rank(name))


def explicit_ranks(names: Sequence[str]) -> list[int | None]:
    """Return each name's explicit rank; None if it has none or several."""
    said = _said(names)  # by name, because a file can be given twice
    return [_only(said[name]) for name in names]


def rank_of(name: str) -> int | None:
    """Return a name's explicit rank; None if it has none or several."""
    return _only(_after_rank(name))


def _only(numbers: Collection[int]) -> int | None:
    found = set(numbers)
    return min(found) if len(found) == 1 and min(found) < 10**_MOST_DIGITS else None


def family_of(name: str) -> str:
    """Return a key shared by the snapshots that one process writes over time.

    For known trainers, this is the rank. Otherwise it's the name without its suffix, with `#` for
    all numbers except ranks (`step_#/rank3`) and those after other keywords for processes (`gpu1`).
    """
    told = parsed_by_layout(name)
    if told is not None:
        return f"{told.before}/rank{told.rank}".lstrip("/")
    plain = bare(name)
    ranks = {found.start(2) for found in _RANK.finditer(plain)}

    def shown(found: re.Match[str]) -> str:
        kept = found.start() in ranks or _WHOSE.search(plain[: found.start()])
        return found[0] if kept else "#"

    return _NUMBER.sub(shown, plain)


def _said(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the ranks in each name, including numbers that can only be recognized as ranks by
    comparing with other names.
    """
    said = {name: _after_rank(name) for name in names}
    stems = stems_of(names)
    for name in names if stems else ():
        rank = None if said[name] else rank_by_siblings(name, stems)
        if rank is not None:
            said[name] = [rank]
    return said


def _after_rank(name: str) -> list[int]:
    """Return the rank from a known layout, or the numbers after `rank` in the name of the file or
    its folder.
    """
    told = parsed_by_layout(name)
    if told is not None:
        return [told.rank]
    folder, _, own = bare(name).rpartition("/")
    for part in (own, folder):
        found = [(bool(m[1]), int(m[2])) for m in _RANK.finditer(part)]
        numbers = [n for local, n in found if not local] or [n for _, n in found]
        if numbers:
            return numbers
    return []


def _check_counted(found: dict[int, str]) -> None:
    """Raise UsageError if numbers without the word "rank" aren't plausible as ranks."""
    word = next(filter(None, (_word_before(name, rank) for rank, name in found.items())), None)
    if word is None and list(found) == list(range(len(found))):
        return
    shown = ", ".join(map(str, list(found)[:_SHOWN])) + (", …" if len(found) > _SHOWN else "")
    several = len(found) > 1
    if word is not None:
        why = f"{'come' if several else 'comes'} after {word!r}"
    else:
        why = "do not count up from 0 without a gap" if several else "is not 0"
    raise UsageError(
        f"the file names don't contain a rank ({_short(next(iter(found.values())))}),"
        f" and the number{('s' if several else '')} {shown} {why}; name the files like"
        " rank0.pkl"
    )


def _word_before(name: str, number: int) -> str | None:
    """Return the keyword that says what a number counts; None if it might be a rank."""
    plain, word = bare(name), None
    for found in _NUMBER.finditer(plain):
        if int(found[0]) == number:
            before = _COUNTED.search(plain[: found.start()])
            if before is None:
                return None
            word = before[1]
    return word


def _all_numbers(names: Sequence[str]) -> list[list[int]]:
    """Return all numbers in each name, including folders. For a single file, ignore the folders."""
    if len(names) == 1:
        names = [names[0].rpartition("/")[2]]
    return [[int(text) for text in _NUMBER.findall(bare(name))] for name in names]


def _telling(names: Sequence[str], numbers: Sequence[list[int]]) -> list[int]:
    """Return each name's rank: its only number, or the number that differs between names."""
    for name, found in zip(names, numbers, strict=True):
        if not found:
            raise UsageError(
                f"no rank in the file name {_short(name)}; name the files rank0.pkl, rank1.pkl, …"
            )
    if all(len(set(found)) == 1 for found in numbers):
        telling = [tuple(found[0] for found in numbers)]
    elif len({len(found) for found in numbers}) > 1:
        telling = []
    else:
        places = dict.fromkeys(zip(*numbers, strict=True))
        telling = [place for place in places if len(set(place)) > 1]
    if len(telling) != 1 or not all(len(str(rank)) <= _MOST_DIGITS for rank in telling[0]):
        raise UsageError(_ambiguous(names))
    return list(telling[0])


def _ambiguous(names: Sequence[str]) -> str:
    shown = ", ".join(map(_short, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
    return f"ambiguous rank in {shown}; name the files like rank0.pkl"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
