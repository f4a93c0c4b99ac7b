"""Finds the files of a dataset: of each table the one that a path means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from memreplay.errors import SnapshotError

FORMATS = ("arrow", "parquet")  # the first that is there is read: it needs no decoding
TABLES = ("frames", "stacks", "segments", "blocks", "annotations", "events")
_EXPORTED = (*TABLES, "allocations", "usage")
_LINES = ("csv", "ndjson", "json")
_RANK = "rank=[0-9]+"
WHOLE = f"a dataset has {', '.join(TABLES)}; export the snapshot again"


class Dataset(Struct, frozen=True):
    """The file of each table that is read. `twin` is a table in the other format beside them, None
    where there is none or where one of the files itself was named."""

    fmt: str
    paths: Mapping[str, str]
    twin: str | None = None


def find_dataset(path: object) -> Dataset | None:
    """The dataset that `path` means; None where it is none.

    It is the folder of the tables of one snapshot, or one of these tables; in a dataset of several
    ranks `TABLE/rank=N`, or a file there. Raises SnapshotError where it is a folder of tables that
    are not those of one snapshot, or not to be read.
    """
    if not isinstance(path, (str, os.PathLike)):
        return None
    name = os.fsdecode(path)
    if os.path.isfile(name):
        return _of_file(name)
    if not os.path.isdir(name):
        return None
    found = _of_one_rank(name) or _of_folder(name)
    if found is None:
        _check_ranks(name)
    return found


def rank_folder(path: str, names: Iterable[str] = TABLES) -> str | None:
    """The first folder of a rank (`events/rank=0`) in the folder of a dataset; None without one."""
    for name in names:
        inner = os.path.join(path, name)
        found = [one for one in os.listdir(inner) if one[:5] == "rank="] if _holds(inner) else []
        if found:
            return f"{name}/{min(found)}"
    return None


def _holds(path: str) -> bool:
    return os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK)


def _of_file(path: str) -> Dataset | None:
    stem, ending = os.path.splitext(os.path.basename(path))
    if ending[1:] not in FORMATS:
        return None
    folder = os.path.dirname(path)
    rank = _rank_of(folder)
    if rank is not None:
        root = os.path.dirname(os.path.dirname(os.path.abspath(folder)))
        named = {name: os.path.join(root, name, rank, stem + ending) for name in TABLES}
        return Dataset(ending[1:], named)
    return Dataset(ending[1:], _named(folder, ending[1:])) if stem in _EXPORTED else None


def _named(folder: str, fmt: str) -> dict[str, str]:
    return {name: os.path.join(folder, f"{name}.{fmt}") for name in TABLES}


def _rank_of(folder: str) -> str | None:
    """`rank=N` of a folder `TABLE/rank=N`; None of any other."""
    table, rank = os.path.abspath(folder).split(os.sep)[-2:]
    return rank if table in _EXPORTED and re.fullmatch(_RANK, rank) else None


def _of_one_rank(folder: str) -> Dataset | None:
    if _rank_of(folder) is None or not _holds(folder):
        return None
    for fmt in FORMATS:
        found = sorted(one for one in os.listdir(folder) if one.endswith(f".{fmt}"))
        if len(found) > 1:
            raise SnapshotError(
                f"the folder holds tables of several snapshots: {found[0]}, {found[1]}",
                hint="name a file of one",
            )
        if found:
            return _of_file(os.path.join(folder, found[0]))
    return None


def _of_folder(folder: str) -> Dataset | None:
    there = [fmt for fmt in FORMATS if os.path.isfile(os.path.join(folder, f"events.{fmt}"))]
    if there:
        ranks = rank_folder(folder)
        if ranks is not None:
            raise SnapshotError(
                f"the folder holds tables of one snapshot and, in {ranks}, of several ranks",
                hint="give each a folder of its own",
            )
        twin = os.path.join(folder, f"events.{there[1]}") if len(there) > 1 else None
        return Dataset(there[0], _named(folder, there[0]), twin)
    for ending in (*FORMATS, *_LINES):
        found = [
            one for one in _EXPORTED if os.path.isfile(os.path.join(folder, f"{one}.{ending}"))
        ]
        if found and ending in FORMATS:
            raise SnapshotError(f"there is no events.{ending} in the folder", hint=WHOLE)
        if "events" in found and len(found) > 1:
            raise SnapshotError(
                f"the tables in the folder are {ending}, and only parquet and arrow can be read"
                " back",
                hint="export the snapshot as one of these",
            )
    return None


def _check_ranks(folder: str) -> None:
    """Raises SnapshotError where it is a dataset of several ranks, or a table of one."""
    rank = rank_folder(folder, ("events", *TABLES))
    home, table = os.path.split(os.path.abspath(folder))
    if rank is None and table in _EXPORTED:
        inside = rank_folder(home, (table,))
        rank = inside and os.path.basename(inside)
    if rank is not None:
        raise SnapshotError(
            "the folder holds tables of several ranks",
            hint=f"name that of one: {os.path.join(folder, rank)}",
        )
