"""Several dumps of each rank in one folder: which of them to read.

Trainers write a file a rank, again and again: torchtitan
`iteration_{step}/rank{rank}_memory_snapshot.pickle` (`iteration_{step}_oom` if memory ran out),
lmms-engine `oom_rank0…` beside `snapshot_train_end_rank0…`. Of each rank the newest is read.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.comparing.rank_names import rank_of
from memreplay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memreplay.io.listing import Listed

_NUMBER = re.compile(r"[0-9]+")
_FROM_RANK = re.compile(r"[-_.]?(?:local[-_.]?)?rank[-_. =]*[0-9]+.*", re.IGNORECASE)
_SHOWN = 4  # dumps that a message lists


class Chosen(NamedTuple):
    """The files that are left, and what there was to choose from, the newest dump last."""

    files: list[Listed]
    dumps: tuple[str, ...] = ()


def one_dump(
    files: Sequence[Listed], wanted: str | None, age: Callable[[Listed], float | None]
) -> Chosen:
    """One file of each rank, where ranks have several: those of the dump called `wanted`, or else
    the newest.

    `wanted` is part of a path, or a pattern with `*`. A dump is newer than another by the numbers
    in its name, if they have those in the same places, and else by its `age`, which is None where
    the store doesn't say. Raises UsageError for a dump that isn't there, and where neither tells.
    """
    if wanted is not None:
        left = [one for one in files if _is_of(one.name, wanted)]
        # Of a single dump the names are without its folder, as all files have that in common.
        left = left or [one for one in files if _is_of(_with_folder(one.path), wanted)]
        if not left:
            raise UsageError(f"--dump {wanted}: no file is of it; there are: {_listed(files)}")
        files = left
    by_rank: dict[int, list[Listed]] = {}
    for one in files:
        rank = rank_of(one.name)
        if rank is not None:
            by_rank.setdefault(rank, []).append(one)
    if all(len(some) == 1 for some in by_rank.values()):
        return Chosen(list(files))
    newest = {id(_newest(some, age)) for some in by_rank.values()}
    return Chosen(
        [one for one in files if rank_of(one.name) is None or id(one) in newest],
        tuple(dict.fromkeys(dump_of(one.name) for one in files if rank_of(one.name) is not None)),
    )


def dump_of(name: str) -> str:
    """What a dump is called: its folder; or the file's name up to the rank, where it is in none."""
    folder, _, own = name.rpartition("/")
    return folder or _FROM_RANK.sub("", own) or own


def _with_folder(path: str) -> str:
    """A file's name behind that of the folder that it is in."""
    return "/".join(re.split(r"[/\\]", path)[-2:])


def _is_of(name: str, wanted: str) -> bool:
    if any(char in wanted for char in "*?["):
        return fnmatchcase(name, wanted) or fnmatchcase(name, f"*{wanted}*")
    return wanted in name


def _newest(files: Sequence[Listed], age: Callable[[Listed], float | None]) -> Listed:
    if len(files) == 1:
        return files[0]
    if len({_NUMBER.sub("#", one.name) for one in files}) == 1:
        return max(files, key=lambda one: [int(text) for text in _NUMBER.findall(one.name)])
    ages = [age(one) for one in files]
    known = [one for one in ages if one is not None]
    if len(known) < len(ages) or known.count(max(known)) > 1:
        raise UsageError(
            f"several dumps of one rank, and nothing tells which is the newest: {_listed(files)};"
            " choose one by --dump"
        )
    return files[ages.index(max(known))]


def _listed(files: Sequence[Listed]) -> str:
    names = list(dict.fromkeys(dump_of(one.name) for one in files))
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
