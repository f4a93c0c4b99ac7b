"""The tables of a fleet as one dataset: OUT/TABLE/rank=N/NAME.parquet.

What is known of each rank is in OUT/_memreplay/rank=N.json. A rank is written by whoever reads it:
its tables in a folder of their own first, then renamed, and its note last. So a rank without a note
is not there, whatever ended the worker, and is done again; one whose note is of the same file is
not read again. From the first change to the last OUT/_memreplay/fleet.json says that the dataset is
not whole, and a lock keeps other runs out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from memreplay.commands.export.dataset import host_of
from memreplay.commands.shared.errors import name_of, say
from memreplay.errors import MissingExtraError, UsageError
from memreplay.export.tables.schema import TABLES, table_spec
from memreplay.fleets.naming import ranks_by_name, ranks_by_pattern
from memreplay.fleets.result import FleetRank
from memreplay.io.urls import is_url
from memreplay.io.version import __version__
from memreplay.io.whole import whole_file
from memreplay.render.ranks import ranks_words
from memreplay.render.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fleet.asked import Fleet
    from memreplay.io.listing import Listed
    from memreplay.snapshot.snapshot import Snapshot

NOTES = "_memreplay"  # what begins with an underscore readers of datasets pass over
WHOLE = "fleet.json"
PARTS = "parts"  # in NOTES: what is being written
LOCK = "lock"

_RANK = re.compile(r"rank=(0|[1-9][0-9]{0,8})")
_ODD = re.compile(r"[^\w .,+@-]")  # in a file's name: what patterns, partitions and terminals mean
_LONGEST_STEM = 60  # characters, of which each may be four bytes of 255
_NOT_YET = "was not read yet"
_GONE = "its tables are not there: another process took them away, or DIR is not the workers'"


class Part(Struct, frozen=True):
    """What one rank writes, and where."""

    folder: str
    rank: int
    file: str
    host: str | None
    tables: tuple[str, ...]
    key: str


class Note(Struct, frozen=True):
    """What is known of a rank that is there; of each file its bytes."""

    key: str
    rows: dict[str, int]
    files: dict[str, int]
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
        where = name_of(file.path) if is_url(file.path) else os.path.abspath(file.path)
        said = (__version__, where, file.name, file.size, file.changed, self.tables, asked)
        key = hashlib.sha256(repr(said).encode()).hexdigest()
        return Part(self.folder, rank, file.name, host_of(file.name), self.tables, key)

    def kept(self, part: Part, file: Listed) -> FleetRank | None:
        """What is known of a rank that is there already, and needs not be read; None for others,
        and where the store does not say whether the file is the same."""
        note = self._of(part)
        return None if note is None or not file.changed else note.rank

    @contextmanager
    def writing(self, ranks: Iterable[int]) -> Iterator[None]:
        """While ranks are written, of these alone. Raises UsageError where another run writes into
        the folder, or nobody can; and where it has ranks of another fleet, which with `force` go.
        """
        try:
            os.makedirs(self._notes, exist_ok=True)
        except OSError as error:
            raise UsageError(_unwritable(self.folder, error)) from None
        with _locked(os.path.join(self._notes, LOCK), self.folder):
            shutil.rmtree(os.path.join(self._notes, PARTS), ignore_errors=True)
            _remove_parts(self._notes)
            self._check_others(ranks)
            try:
                yield
            finally:
                shutil.rmtree(os.path.join(self._notes, PARTS), ignore_errors=True)

    def begin(self, left: Iterable[int]) -> None:
        """Say that these ranks are not there yet."""
        missing = dict.fromkeys(left, _NOT_YET)
        if missing:
            self._say(missing, {})

    def finish(self, parts: Iterable[Part], missing: Mapping[int, str]) -> Whole:
        """Note what there is, and what there is not and why. What there was of that goes: it is of
        another file."""
        notes, lacking = {}, dict(missing)
        for part in parts:
            note = None if part.rank in missing else self._of(part)
            if note is not None:
                notes[part.rank] = note
                continue
            lacking.setdefault(part.rank, _GONE)
            drop_rank(self.folder, part.rank)
        return self._say(lacking, notes)

    def _say(self, missing: Mapping[int, str], notes: Mapping[int, Note]) -> Whole:
        rows = dict.fromkeys(self.tables, 0)
        for note in notes.values():
            for name in self.tables:
                rows[name] += note.rows.get(name, 0)
        found = Whole(
            "memreplay.fleet_dataset/1",
            not missing,
            self.tables,
            rows,
            tuple(sorted(notes)),
            dict(sorted(missing.items())),
        )
        try:
            _write_whole(os.path.join(self._notes, WHOLE), _json(found))
        except OSError as error:
            raise UsageError(_unwritable(self.folder, error)) from None
        return found

    def _check_others(self, ranks: Iterable[int]) -> None:
        others = sorted(self._there() - set(ranks))
        if others and not self.force:
            raise UsageError(
                f"{self.folder} has rank {others[0]}, and this fleet has none: --force takes what"
                " is of other fleets away"
            )
        for rank in others:
            drop_rank(self.folder, rank)

    def _there(self) -> set[int]:
        """The ranks of which there is anything, be it what a run left that was killed."""
        found = set()
        for name in (NOTES, *TABLES):
            folder = os.path.join(self.folder, name)
            names = os.listdir(folder) if os.path.isdir(folder) else []
            ends = ".json" if name == NOTES else ""
            told = [_RANK.fullmatch(one.removesuffix(ends)) for one in names if one.endswith(ends)]
            found |= {int(one[1]) for one in told if one}
        return found

    def _of(self, part: Part) -> Note | None:
        """The note of a rank that is there as it is asked for, all of it."""
        note = self._note(part.rank)
        if note is None or note.key != part.key:
            return None
        try:
            sizes = {one: os.path.getsize(os.path.join(self.folder, one)) for one in note.files}
        except (OSError, ValueError):  # a name with a null byte is a ValueError
            return None
        return note if sizes == note.files else None

    def _note(self, rank: int) -> Note | None:
        path = _note_path(self.folder, rank)
        try:
            if not os.path.isfile(path):  # a pipe would be waited for
                return None
            with open(path, "rb") as file:
                return msgspec.convert(json.load(file), Note)
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            # msgspec errors are ValueErrors only from 0.21 on.
            return None


def write_rank(snap: Snapshot, part: Part, row: FleetRank, selection: Selection) -> None:
    """Write the tables of a rank, and then that it is there. What was there of it goes before.

    Raises UsageError where they cannot be written; then nothing of them is left.
    """
    try:
        _write(snap, part, row, selection)
    except OSError as error:
        words = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"its tables could not be written: {words}") from None


def _write(snap: Snapshot, part: Part, row: FleetRank, selection: Selection) -> None:
    from memreplay.analysis.categories.rules import DEFAULT_RULES
    from memreplay.export.tables import table
    from memreplay.export.tables.parquet import write_parquet

    drop_rank(part.folder, part.rank)
    rules = DEFAULT_RULES if selection.rules is None else selection.rules
    labels = {"file": _encodable(part.file), "host": part.host}
    # Its own, though a cluster that lost sight of a worker may have another do the same.
    made = os.path.join(part.folder, NOTES, PARTS, uuid.uuid4().hex)
    rows, sizes = {}, {}
    try:
        os.makedirs(made)
        for name in part.tables:
            one = table(snap, name, rules=rules, labels=labels)
            with open(os.path.join(made, name), "wb") as out:
                write_parquet(one, out)
            rows[name] = one.rows
            sizes[name] = os.path.getsize(os.path.join(made, name))
        shown = f"rank={part.rank}/{_stem(part.file)}.parquet"
        files = {f"{name}/{shown}": size for name, size in sizes.items()}
        note = Note(part.key, rows, files, replace(row, file=labels["file"] or ""))
        _publish(part, made, shown, _json(note))
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _publish(part: Part, made: str, shown: str, note: bytes) -> None:
    """Put the tables that were made where readers find them; all or none."""
    drop_rank(part.folder, part.rank)  # again: a worker that was thought lost may have come before
    try:
        for name in part.tables:
            path = os.path.join(part.folder, name, shown)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.replace(os.path.join(made, name), path)
        _write_whole(_note_path(part.folder, part.rank), note)
    except BaseException:
        with suppress(OSError):
            drop_rank(part.folder, part.rank)
        raise


def _stem(name: str) -> str:
    """How the tables of a file are called: as it is itself, but for what readers of datasets take
    for something else; what begins with `_` or `.` they pass over."""
    own = _ODD.sub("_", name.rpartition("/")[2].split(".")[0])
    return own.lstrip("_. ")[:_LONGEST_STEM] or "snapshot"


def _json(known: Note | Whole) -> bytes:
    # By json: what a file's frames and names have may be no Unicode, which msgspec refuses.
    return json.dumps(msgspec.to_builtins(known, str_keys=True), separators=(",", ":")).encode()


def _encodable(name: str) -> str:
    """A name as text; what is no UTF-8 in it is a question mark each."""
    return name.encode("utf-8", "replace").decode()


def drop_rank(folder: str, rank: int) -> None:
    """Take away what there is of a rank, its note first. Raises OSError where it stays."""
    with suppress(FileNotFoundError):
        os.remove(_note_path(folder, rank))
    for name in TABLES:
        path = os.path.join(folder, name, f"rank={rank}")
        if os.path.lexists(path):
            shutil.rmtree(path, ignore_errors=True)
            if os.path.isdir(path) and os.listdir(path):
                raise OSError(None, "what was there before cannot be taken away", path)


def _note_path(folder: str, rank: int) -> str:
    return os.path.join(folder, NOTES, f"rank={rank}.json")


def _write_whole(path: str, data: bytes) -> None:
    # What killed runs left is removed once, by _remove_parts: there is a note a rank.
    with whole_file(path, many=True, sweeps=False) as out:
        out.write(data)


def _remove_parts(notes: str) -> None:
    """Removes notes that were not whole when their run was killed: no other run is here."""
    for name in os.listdir(notes):
        if name.endswith(".part"):
            with suppress(OSError):
                os.remove(os.path.join(notes, name))


def _unwritable(folder: str, error: OSError) -> str:
    return f"{folder} cannot be written: {(error.strerror or type(error).__name__).lower()}"


@contextmanager
def _locked(path: str, folder: str) -> Iterator[None]:
    """Hold this lock, which goes with the process; where there are no locks, do without.

    Raises UsageError where another process has it, and where the folder cannot be written.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        file = open(path, "wb")  # noqa: SIM115 - closed below; only this may be the folder's fault
    except OSError as error:
        raise UsageError(_unwritable(folder, error)) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another run writes into {folder}: wait for it, or name another folder"
            ) from None
        except OSError:  # a file system that has none
            pass
        yield


def _check_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("writing a dataset needs pyarrow", "parquet") from None


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
    parts = [
        None if rank is None else dataset.part(rank, one, asked)
        for one, rank in zip(files, ranks, strict=True)
    ]
    return dataset, parts


def say_dataset(folder: str, whole: Whole, kept: int, unranked: Sequence[str]) -> None:
    """What was written, and what is missing."""
    rows = ", ".join(f"{n:,} {name}" for name, n in whole.rows.items())
    there = f"{counted(len(whole.ranks), 'rank')} in {folder}"
    say(f"{there} ({kept:,} there before): {rows}")
    if whole.missing:
        say(
            f"{folder} is not whole: {ranks_words(whole.missing)} missing; run it again to add them"
        )
    if unranked:
        more = f", and {len(unranked) - 1:,} more" if len(unranked) > 1 else ""
        say(f"no rank in the name {unranked[0]}{more}: not in {folder}")
