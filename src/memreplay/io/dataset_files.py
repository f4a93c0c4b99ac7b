"""Find a dataset's files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from memreplay.errors import SnapshotError

FORMATS = ("arrow", "parquet")  # in order of preference; arrow needs no decoding
TABLES = ("frames", "stacks", "segments", "blocks", "annotations", "events")
_EXPORTED = (*TABLES, "allocations", "usage")
_LINES = ("csv", "ndjson", "json")
_RANK = "rank=[0-9]+"
WHOLE = f"a dataset has {', '.join(TABLES)}; export the snapshot again"


class Dataset(Struct, frozen=True):
    """A dataset's files.

    Attributes
    ----------
    fmt : str
        "arrow" or "parquet".
    paths : mapping
        The file of each table.
    twin : str or None
        The same table in the other format, in the same folder. None if there is none, or if `path`
        is a file.
    """

    fmt: str
    paths: Mapping[str, str]
    twin: str | None = None


def find_dataset(path: object) -> Dataset | None:
    """Return the dataset at `path`; None if there is none.

    `path` is the folder with one snapshot's tables, or one of the tables. For a dataset with
    several ranks, it's `TABLE/rank=N` or a file in that folder. Raises SnapshotError if a folder's
    tables can't be read or belong to several snapshots.
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
    """Return a dataset's first rank folder (`events/rank=0`); None if it has none."""
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
    """Return `rank=N` for a folder `TABLE/rank=N`; None for other folders."""
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
                hint="pass a file of one of them",
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
                hint="move each to its own folder",
            )
        twin = os.path.join(folder, f"events.{there[1]}") if len(there) > 1 else None
        return Dataset(there[0], _named(folder, there[0]), twin)
    for ending in (*FORMATS, *_LINES):
        found = [
            one for one in _EXPORTED if os.path.isfile(os.path.join(folder, f"{one}.{ending}"))
        ]
        if found and ending in FORMATS:
            raise SnapshotError(f"events.{ending} is missing from the folder", hint=WHOLE)
        if "events" in found and len(found) > 1:
            raise SnapshotError(
                f"the tables in the folder are {ending}, but only parquet and arrow can be read"
                " back",
                hint="export the snapshot as parquet or arrow",
            )
    return None


def _check_ranks(folder: str) -> None:
    """Raise SnapshotError for a dataset with several ranks, or for a table of such a dataset."""
    rank = rank_folder(folder, ("events", *TABLES))
    home, table = os.path.split(os.path.abspath(folder))
    if rank is None and table in _EXPORTED:
        inside = rank_folder(home, (table,))
        rank = inside and os.path.basename(inside)
    if rank is not None:
        raise SnapshotError(
            "the folder holds tables of several ranks",
            hint=f"pass the folder of one rank: {os.path.join(folder, rank)}",
        )
