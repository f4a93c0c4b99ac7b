"""Write a fleet's tables as one dataset: OUT/TABLE/rank=N/NAME.parquet.

OUT/_memreplay/rank=N.json describes each rank. The worker that reads a rank also writes the rank's
tables, first into a separate folder that is then renamed. The note is written last. A rank without
a note (for example, because its worker was killed) therefore counts as missing and is read again. A
rank with a note for the same file isn't read again. While ranks are being written,
OUT/_memreplay/fleet.json says that the dataset is incomplete, and a lock keeps other runs out.
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
from memreplay.render.ranks import rank_list_text
from memreplay.render.units import counted
from memreplay.snapshot.record import bare

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.fleet.options import Fleet
    from memreplay.io.listing import Listed
    from memreplay.snapshot.snapshot import Snapshot

NOTES = "_memreplay"  # dataset readers skip names with a leading underscore
WHOLE = "fleet.json"
PARTS = "parts"  # subfolder of NOTES for unfinished tables
LOCK = "lock"

_RANK = re.compile(r"rank=(0|[1-9][0-9]{0,8})")
# Characters in file names that have a special meaning in patterns, partition names or terminals.
_ODD = re.compile(r"[^\w .,+@-]")
_LONGEST_STEM = 60  # characters; in UTF-8, that's at most 240 bytes, and file systems allow 255
_NOT_YET = "not read yet"
_GONE = (
    "its tables are missing: another process removed them, or the workers don't share this folder"
)


class Part(Struct, frozen=True):
    """What to write for one rank, and where."""

    folder: str
    rank: int
    file: str
    host: str | None
    tables: tuple[str, ...]
    key: str


class Note(Struct, frozen=True):
    """The facts about a rank in the dataset, and the sizes of its files in bytes."""

    key: str
    rows: dict[str, int]
    files: dict[str, int]
    rank: FleetRank


class Whole(Struct, frozen=True):
    """What a dataset contains and what is missing from it."""

    schema: str
    complete: bool
    tables: tuple[str, ...]
    rows: dict[str, int]
    ranks: tuple[int, ...]
    missing: dict[int, str]


def chosen_tables(text: str | None) -> tuple[str, ...]:
    """Return the tables chosen by `--tables`, by default all. Raises UsageError for unknown
    tables.
    """
    if text is None:
        return tuple(TABLES)
    return tuple(table_spec(name).name for name in dict.fromkeys(text.replace(" ", "").split(",")))


class Dataset:
    """A folder to write ranks into.

    Raises UsageError for a folder with other contents, and MissingExtraError without pyarrow.
    """

    def __init__(self, folder: str, tables: tuple[str, ...], *, force: bool) -> None:
        self.folder = os.path.abspath(folder)
        self.tables = tables
        self.force = force
        self._notes = os.path.join(self.folder, NOTES)
        _check_pyarrow()
        if os.path.isdir(self.folder):
            if os.listdir(self.folder) and not os.path.isdir(self._notes):
                raise UsageError(f"{folder} isn't a fleet dataset; choose another folder")
        elif os.path.lexists(self.folder):
            raise UsageError(f"{folder} is a file; choose a folder for the dataset")

    def part(self, rank: int, file: Listed, asked: object) -> Part:
        """Return what to write for a rank's file. The part's key depends on the file, the tables
        and the query.
        """
        where = name_of(file.path) if is_url(file.path) else os.path.abspath(file.path)
        said = (__version__, where, file.name, file.size, file.changed, self.tables, asked)
        key = hashlib.sha256(repr(said).encode()).hexdigest()
        return Part(self.folder, rank, file.name, host_of(file.name), self.tables, key)

    def kept(self, part: Part, file: Listed) -> FleetRank | None:
        """Return the facts about a rank that needn't be read again.

        Return None if the rank has to be read again, for example because the store doesn't say
        whether the file is unchanged.
        """
        note = self._of(part)
        return None if note is None or not file.changed else note.rank

    @contextmanager
    def writing(self, ranks: Iterable[int]) -> Iterator[None]:
        """Lock the dataset while these ranks are written.

        Raises UsageError if another run is writing, if the folder isn't writable, or if it has
        another fleet's ranks (with `force`, they're deleted).
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
        """Record in the dataset that these ranks are incomplete."""
        missing = dict.fromkeys(left, _NOT_YET)
        if missing:
            self._say(missing, {})

    def finish(self, parts: Iterable[Part], missing: Mapping[int, str]) -> Whole:
        """Record in the dataset which ranks exist, and why others don't. Remove old data of ranks
        that don't exist.
        """
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
                f"{self.folder} has rank {others[0]}, which this fleet doesn't have; --force"
                " removes the data of other fleets"
            )
        for rank in others:
            drop_rank(self.folder, rank)

    def _there(self) -> set[int]:
        """Return all ranks that have any data, including data left by a killed run."""
        found = set()
        for name in (NOTES, *TABLES):
            folder = os.path.join(self.folder, name)
            names = os.listdir(folder) if os.path.isdir(folder) else []
            ends = ".json" if name == NOTES else ""
            told = [_RANK.fullmatch(one.removesuffix(ends)) for one in names if one.endswith(ends)]
            found |= {int(one[1]) for one in told if one}
        return found

    def _of(self, part: Part) -> Note | None:
        """Return a rank's note; None if the note is for another query or the rank is incomplete."""
        note = self._note(part.rank)
        if note is None or note.key != part.key:
            return None
        try:
            sizes = {one: os.path.getsize(os.path.join(self.folder, one)) for one in note.files}
        except (OSError, ValueError):  # a name with a null byte raises ValueError
            return None
        return note if sizes == note.files else None

    def _note(self, rank: int) -> Note | None:
        path = _note_path(self.folder, rank)
        try:
            if not os.path.isfile(path):  # opening a pipe would block
                return None
            with open(path, "rb") as file:
                return msgspec.convert(json.load(file), Note)
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            # msgspec errors are ValueErrors only since 0.21.
            return None


def write_rank(snap: Snapshot, part: Part, row: FleetRank, selection: Selection) -> None:
    """Replace a rank's tables, then write its note.

    Raises UsageError if that fails, after removing partial files.
    """
    try:
        _write(snap, part, row, selection)
    except OSError as error:
        words = (error.strerror or type(error).__name__).lower()
        raise UsageError(f"its tables couldn't be written: {words}") from None


def _write(snap: Snapshot, part: Part, row: FleetRank, selection: Selection) -> None:
    from memreplay.analysis.categories.rules import DEFAULT_RULES
    from memreplay.export.tables import table
    from memreplay.export.tables.parquet import write_parquet

    drop_rank(part.folder, part.rank)
    rules = DEFAULT_RULES if selection.rules is None else selection.rules
    labels = {"file": _encodable(part.file), "host": part.host}
    # Use a unique name, because a cluster may read a rank again after losing contact with a worker.
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
    """Move finished tables into place, either all or none."""
    # Drop the rank again, because a worker that seemed lost may have finished since.
    drop_rank(part.folder, part.rank)
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
    """Return the base name of a file's tables. This is the file's own base name, changed where
    dataset readers would misinterpret it.

    For example, readers skip names that start with `_` or `.`.
    """
    own = _ODD.sub("_", name.rpartition("/")[2].split(".")[0])
    return own.lstrip("_. ")[:_LONGEST_STEM] or "snapshot"


def _json(known: Note | Whole) -> bytes:
    # Uses json because file names can contain lone surrogates, which msgspec rejects.
    return json.dumps(
        msgspec.to_builtins(known, str_keys=True, enc_hook=bare), separators=(",", ":")
    ).encode()


def _encodable(name: str) -> str:
    """Put question marks in place of characters that UTF-8 can't encode."""
    return name.encode("utf-8", "replace").decode()


def drop_rank(folder: str, rank: int) -> None:
    """Delete a rank, beginning with its note. Raises OSError if that fails."""
    with suppress(FileNotFoundError):
        os.remove(_note_path(folder, rank))
    for name in TABLES:
        path = os.path.join(folder, name, f"rank={rank}")
        if os.path.lexists(path):
            shutil.rmtree(path, ignore_errors=True)
            if os.path.isdir(path) and os.listdir(path):
                raise OSError(None, "the earlier data can't be removed", path)


def _note_path(folder: str, rank: int) -> str:
    return os.path.join(folder, NOTES, f"rank={rank}.json")


def _write_whole(path: str, data: bytes) -> None:
    # _remove_parts removes leftovers of killed runs once, rather than for each note.
    with whole_file(path, many=True, sweeps=False) as out:
        out.write(data)


def _remove_parts(notes: str) -> None:
    """Remove a killed run's unfinished notes. Only called while no other run is active."""
    for name in os.listdir(notes):
        if name.endswith(".part"):
            with suppress(OSError):
                os.remove(os.path.join(notes, name))


def _unwritable(folder: str, error: OSError) -> str:
    return f"{folder} can't be written: {(error.strerror or type(error).__name__).lower()}"


@contextmanager
def _locked(path: str, folder: str) -> Iterator[None]:
    """Hold a lock, which is released even if the process is killed. Without lock support, do
    nothing.

    Raises UsageError if another process has the lock, or if the folder isn't writable.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
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
                f"another run is writing to {folder}; wait for it, or choose another folder"
            ) from None
        except OSError:  # the file system doesn't support locks
            pass
        yield


def _check_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("writing a dataset needs pyarrow", "parquet") from None


def missing_of(ranks: Sequence[FleetRank]) -> dict[int, str]:
    """Return the ranks that couldn't be read, and why."""
    return {
        one.rank: one.error or one.status
        for one in ranks
        if one.rank is not None and one.status not in ("ok", "empty")
    }


def parts_of(
    fleet: Fleet, files: Sequence[Listed], pattern: re.Pattern[str] | None, asked: object
) -> tuple[Dataset | None, list[Part | None]]:
    """Return the dataset, and each file's part of it. `asked`: the rest of the query. Raises
    UsageError if ranks are unknown.
    """
    if fleet.output is None:
        return None, [None] * len(files)
    names = [one.name for one in files]
    ranks = ranks_by_name(names) if pattern is None else ranks_by_pattern(names, pattern)
    if ranks is None:
        raise UsageError(
            "a dataset has a folder per rank, but the file names have no rank; give --rank-pattern"
        )
    dataset = Dataset(fleet.output, chosen_tables(fleet.tables), force=fleet.force)
    parts = [
        None if rank is None else dataset.part(rank, one, asked)
        for one, rank in zip(files, ranks, strict=True)
    ]
    return dataset, parts


def say_dataset(folder: str, whole: Whole, kept: int, unranked: Sequence[str]) -> None:
    """Print what was written and what is missing."""
    rows = ", ".join(f"{n:,} {name}" for name, n in whole.rows.items())
    there = f"{counted(len(whole.ranks), 'rank')} in {folder}"
    say(f"{there} ({kept:,} from before): {rows}")
    if whole.missing:
        say(
            f"{folder} is incomplete: {rank_list_text(whole.missing)} missing; run it"
            " again to add them"
        )
    if unranked:
        more = f", and {len(unranked) - 1:,} more" if len(unranked) > 1 else ""
        say(f"no rank in the file name {unranked[0]}{more}, so not in {folder}")
