"""Tells which rank each file of a run is of, by the files' names alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from memreplay.analysis.comparing.layouts import rank_beside, stems_of, told_by
from memreplay.errors import UsageError
from memreplay.io.names import bare

# `rank7`, `Rank_7`, `rank-07`; of `local_rank3` and `rank12` in one name the second counts. Of a
# LoRA it is a size.
_RANK = re.compile(r"(?<!lora)(?<!lora[-_. ])(local)?[-_. ]?rank[-_. =]*([0-9]+)", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
# What counts something else than ranks, though it may count from 0 on as they do.
_COUNTED = re.compile(
    r"(?:^|[^a-z])(attempt|batch|bs|bucket|ctx|dim|epoch|fold|head|iter|iteration|layer|lora|lr|run|"
    r"seed|seq|size|step|trial|try|v|version)s?[-_. =]*\Z",
    re.IGNORECASE,
)
# What tells processes apart that say no rank.
_WHOSE = re.compile(
    r"(?:^|[^a-z])(gpu|cuda|xpu|device|node|host|worker|proc|process|pid|[cdept]p)[-_. =]*\Z",
    re.IGNORECASE,
)
_MOST_DIGITS = 9  # what has more is a time or an id
_SHOWN = 3  # names that an error lists
_LONGEST = 60  # characters of one


def ranks_of(names: Sequence[str]) -> tuple[dict[int, str], tuple[str, ...]]:
    """The file of each rank, in their order, and the names that have no rank where others do.

    A rank is what the layout of a known trainer says, or the number after `rank` in the file's
    name, or else in its folder's. Where no name has that, it is the one number in which the names
    differ, if that counts from 0 on without a gap (sizes and steps do not) and no word before it
    says what else it counts. `names` are snapshots, as paths with `/`, each there once.
    Raises UsageError where a rank is ambiguous or there twice,
    and where there is none.
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
                f"two files have rank {rank}, {_short(found[rank])} and {_short(name)}; each rank"
                " has one file (name the folder of one dump)"
            )
        found[rank] = name
    if not is_said and found:
        _check_counted(found)
    return found, unranked


def missing_ranks(there: Collection[int], known: Collection[int] = ()) -> tuple[int, ...]:
    """Ranks up to the last that there ought to be a file of; `known` are ranks of which there are
    other files. Where most are missing, the numbers are no ranks, and it has none."""
    some = {*there, *known}
    most = max(some, default=-1)
    if most >= 2 * len(some) + 8:
        return tuple(sorted(set(known).difference(there)))
    return tuple(rank for rank in range(most + 1) if rank not in there)


def says_rank(name: str) -> bool:
    """Whether a name has the word, so that its rank need not be guessed."""
    return bool(_after_rank(name))


def ranks_said(names: Sequence[str]) -> list[int | None]:
    """The rank that each of these names says; None where it says none, or several."""
    said = _said(names)  # of each name once: a file may be given twice
    return [_only(said[name]) for name in names]


def rank_of(name: str) -> int | None:
    """The rank that a name says by that word; None where it says none, or several."""
    return _only(_after_rank(name))


def _only(numbers: Collection[int]) -> int | None:
    found = set(numbers)
    return min(found) if len(found) == 1 and min(found) < 10**_MOST_DIGITS else None


def family_of(name: str) -> str:
    """What the snapshots of one process have in common that it writes one after the other: its rank
    where the names are those of a known trainer; else the name without its ending, and `#` for each
    number but a rank's (`step_#/rank3`), or that of what else tells processes apart (`gpu1`)."""
    told = told_by(name)
    if told is not None:
        return f"{told.before}/rank{told.rank}".lstrip("/")
    plain = bare(name)
    ranks = {found.start(2) for found in _RANK.finditer(plain)}

    def shown(found: re.Match[str]) -> str:
        kept = found.start() in ranks or _WHOSE.search(plain[: found.start()])
        return found[0] if kept else "#"

    return _NUMBER.sub(shown, plain)


def _said(names: Sequence[str]) -> dict[str, list[int]]:
    """The numbers that each name calls a rank; with those that only the other names explain."""
    said = {name: _after_rank(name) for name in names}
    stems = stems_of(names)
    for name in names if stems else ():
        rank = None if said[name] else rank_beside(name, stems)
        if rank is not None:
            said[name] = [rank]
    return said


def _after_rank(name: str) -> list[int]:
    """The rank by a known layout; or the numbers after `rank` in a file's name, those of its folder
    where it has none itself."""
    told = told_by(name)
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
    """Raises UsageError where numbers that no name calls ranks are not plainly ranks."""
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
        f"no name says its rank ({_short(next(iter(found.values())))}), and the"
        f" number{'s' if several else ''} {shown} {why}: put the rank after the word rank, as in"
        " rank0.pkl"
    )


def _word_before(name: str, number: int) -> str | None:
    """The word that says what a number in a name counts, if it is not ranks."""
    plain, word = bare(name), None
    for found in _NUMBER.finditer(plain):
        if int(found[0]) == number:
            before = _COUNTED.search(plain[: found.start()])
            if before is None:
                return None
            word = before[1]
    return word


def _all_numbers(names: Sequence[str]) -> list[list[int]]:
    """All numbers of each name, folders included; of one file alone its own name's."""
    if len(names) == 1:
        names = [names[0].rpartition("/")[2]]
    return [[int(text) for text in _NUMBER.findall(bare(name))] for name in names]


def _telling(names: Sequence[str], numbers: Sequence[list[int]]) -> list[int]:
    """Of each name's numbers the one that is its rank: the only one, or that which differs."""
    for name, found in zip(names, numbers, strict=True):
        if not found:
            raise UsageError(
                f"no rank in the name {_short(name)}: name files as rank0.pkl, rank1.pkl, …"
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
    return (
        f"which number is the rank in {shown} is not clear: put it after the word rank, as in"
        " rank0.pkl"
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
