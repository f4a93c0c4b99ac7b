"""The tables of a fleet as one dataset: OUT/TABLE/rank=N/NAME.parquet.

What is known of each rank is in OUT/_memreplay/rank=N.json. A rank is written by whoever reads it:
its tables under other names first, then renamed, and its note last. So a rank without a note is not
there, whatever ended the worker, and is done again; one whose note is of the same file is not read
again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from memreplay.commands.export.dataset import host_of
from memreplay.commands.fleet.naming import ranks_by_name, ranks_by_pattern
from memreplay.commands.fleet.result import FleetRank
from memreplay.commands.shared.errors import say
from memreplay.errors import MissingExtraError, UsageError
from memreplay.export.tables.schema import TABLES, table_spec
from memreplay.io.version import __version__
from memreplay.render.ranks import ranks_words
from memreplay.render.units import counted

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fleet.asked import Fleet
    from memreplay.io.listing import Listed
    from memreplay.snapshot.snapshot import Snapshot

NOTES = "_memreplay"  # what begins with an underscore readers of datasets pass over
WHOLE = "fleet.json"


class Part(Struct, frozen=True):
    """What one rank writes, and where."""

    folder: str
    rank: int
    file: str
    host: str | None
    tables: tuple[str, ...]
    key: str


class Note(Struct, frozen=True):
    """What is known of a rank that is there."""

    key: str
    rows: dict[str, int]
    files: tuple[str, ...]
    rank: FleetRank


class Whole(Struct, frozen=True):
    """What a dataset has, and what it lacks."""

    schema: str
    complete: bool
    tables: tuple[str, ...]
    rows: dict[str, int]
    ranks: tuple[int, ...]
    missing: dict[int, str]


def chosen_tables(text: str | None) -> tuple[str, ...]:
    """The tables that `--tables` names; all of them without it. Raises UsageError."""
    if text is None:
        return tuple(TABLES)
    return tuple(table_spec(name).name for name in dict.fromkeys(text.replace(" ", "").split(",")))


class Dataset:
    """A folder that ranks are written into.

    Raises UsageError for a folder of something else, and MissingExtraError without pyarrow.
    """

    def __init__(self, folder: str, tables: tuple[str, ...], *, force: bool) -> None:
        self.folder = os.path.abspath(folder)
        self.tables = tables
        self.force = force
        self._notes = os.path.join(self.folder, NOTES)
        _check_pyarrow()
        if os.path.isdir(self.folder):
            if os.listdir(self.folder) and not os.path.isdir(self._notes):
                raise UsageError(f"{folder} is no dataset of a fleet: name another folder")
        elif os.path.lexists(self.folder):
            raise UsageError(f"{folder} is a file: a dataset is a folder")

    def part(self, rank: int, file: Listed, asked: object) -> Part:
        """What to write of a rank's file. Its key is another one where the file, the tables or what
        is asked of it are."""
        said = (__version__, file.name, file.size, file.changed, self.tables, asked)
        key = hashlib.sha256(repr(said).encode()).hexdigest()
        return Part(self.folder, rank, file.name, host_of(file.name), self.tables, key)

    def kept(self, part: Part, file: Listed) -> FleetRank | None:
        """What is known of a rank that is there already, and needs not be read; None for others,
        and where the store does not say whether the file is the same."""
        note = self._note(part.rank)
        if note is None or note.key != part.key or not file.changed:
            return None
        if not all(os.path.isfile(os.path.join(self.folder, name)) for name in note.files):
            return None
        return note.rank

    def check_others(self, ranks: Iterable[int]) -> None:
        """Raise UsageError where there are ranks of another fleet; with `force` they go."""
        others = sorted(set(self._there()) - set(ranks))
        if others and not self.force:
            raise UsageError(
                f"{self.folder} has rank {others[0]}, and this fleet has none: --force takes what"
                " is of other fleets away"
            )
        for rank in others:
            drop_rank(self.folder, rank)

    def finish(self, missing: dict[int, str]) -> Whole:
        """Note what there is, and what there is not and why. What there was of that goes: it is of
        another file."""
        for rank in missing:
            drop_rank(self.folder, rank)
        notes = {rank: self._note(rank) for rank in sorted(self._there())}
        there = {rank: note for rank, note in notes.items() if note is not None}
        rows = dict.fromkeys(self.tables, 0)
        for note in there.values():
            for name, n in note.rows.items():
                rows[name] = rows.get(name, 0) + n
        found = Whole(
            "memreplay.fleet_dataset/1", not missing, self.tables, rows, tuple(there), missing
        )
        os.makedirs(self._notes, exist_ok=True)
        _write_whole(os.path.join(self._notes, WHOLE), msgspec.json.encode(found))
        return found

    def _there(self) -> list[int]:
        names = os.listdir(self._notes) if os.path.isdir(self._notes) else []
        ranks = [name[5:-5] for name in names if name[:5] == "rank=" and name.endswith(".json")]
        return [int(text) for text in ranks if text.isdecimal()]

    def _note(self, rank: int) -> Note | None:
        try:
            with open(_note_path(self.folder, rank), "rb") as file:
                return msgspec.json.decode(file.read(), type=Note)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None


def write_rank(snap: Snapshot, part: Part, row: FleetRank, selection: Selection) -> None:
    """Write the tables of a rank, and then that it is there. What was there of it goes before.

    Raises UsageError where they cannot be written; then nothing of them is left.
    """
    try:
        _write(snap, part, row, selection)
    except OSError as error:
        drop_rank(part.folder, part.rank)
        words = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"its tables could not be written: {words}") from None
    except BaseException:
        drop_rank(part.folder, part.rank)
        raise


def _write(snap: Snapshot, part: Part, row: FleetRank, selection: Selection) -> None:
    from memreplay.analysis.categories.rules import DEFAULT_RULES
    from memreplay.export.tables import table
    from memreplay.export.tables.parquet import write_parquet

    drop_rank(part.folder, part.rank)
    rules = DEFAULT_RULES if selection.rules is None else selection.rules
    stem = os.path.basename(part.file).split(".")[0] or "snapshot"
    made: dict[str, tuple[str, str]] = {}
    rows = {}
    for name in part.tables:
        folder = os.path.join(part.folder, name, f"rank={part.rank}")
        os.makedirs(folder, exist_ok=True)
        # Hidden, so that no reader takes it, until all are there.
        made[name] = os.path.join(folder, f".{stem}.part"), f"{stem}.parquet"
        one = table(snap, name, rules=rules, labels={"file": part.file, "host": part.host})
        with open(made[name][0], "wb") as out:
            write_parquet(one, out)
        rows[name] = one.rows
    files = []
    for name, (hidden, shown) in made.items():
        os.replace(hidden, os.path.join(os.path.dirname(hidden), shown))
        files.append(f"{name}/rank={part.rank}/{shown}")
    note = Note(part.key, rows, tuple(files), row)
    os.makedirs(os.path.join(part.folder, NOTES), exist_ok=True)
    _write_whole(_note_path(part.folder, part.rank), msgspec.json.encode(note))


def drop_rank(folder: str, rank: int) -> None:
    """Take away what there is of a rank, its note first."""
    with suppress(FileNotFoundError):
        os.remove(_note_path(folder, rank))
    for name in TABLES:
        shutil.rmtree(os.path.join(folder, name, f"rank={rank}"), ignore_errors=True)


def _note_path(folder: str, rank: int) -> str:
    return os.path.join(folder, NOTES, f"rank={rank}.json")


def _write_whole(path: str, data: bytes) -> None:
    part = f"{path}.part"
    with open(part, "wb") as out:
        out.write(data)
    os.replace(part, path)


def _check_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "a dataset is written with pyarrow; pip install 'memreplay[parquet]'"
        ) from None


def missing_of(ranks: Sequence[FleetRank]) -> dict[int, str]:
    """The ranks that could not be read, and why."""
    return {
        one.rank: one.error
        for one in ranks
        if one.rank is not None and one.status not in ("ok", "empty")
    }


def parts_of(
    fleet: Fleet, files: Sequence[Listed], pattern: re.Pattern[str] | None, asked: object
) -> tuple[Dataset | None, list[Part | None]]:
    """The dataset that is asked for, and what each file writes into it; `asked` is what else is
    asked of each. Raises UsageError where the names tell no ranks."""
    if fleet.output is None:
        return None, [None] * len(files)
    names = [one.name for one in files]
    ranks = ranks_by_name(names) if pattern is None else ranks_by_pattern(names, pattern)
    if ranks is None:
        raise UsageError("a dataset has a folder a rank, and the names tell none: --rank-pattern")
    dataset = Dataset(fleet.output, chosen_tables(fleet.tables), force=fleet.force)
    dataset.check_others([rank for rank in ranks if rank is not None])
    parts = [
        None if rank is None else dataset.part(rank, one, asked)
        for one, rank in zip(files, ranks, strict=True)
    ]
    return dataset, parts


def say_dataset(folder: str, whole: Whole, kept: int) -> None:
    """What was written, and what is missing."""
    rows = ", ".join(f"{n:,} {name}" for name, n in whole.rows.items())
    there = f"{counted(len(whole.ranks), 'rank')} in {folder}"
    say(f"{there} ({kept:,} there before): {rows}")
    if whole.missing:
        say(
            f"{folder} is not whole: {ranks_words(whole.missing)} missing; run it again to add them"
        )
