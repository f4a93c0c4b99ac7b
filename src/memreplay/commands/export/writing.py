"""Writes the tables of a snapshot: reads it, makes what they share, and writes two at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from threading import Event, Thread
from typing import IO, TYPE_CHECKING

from memreplay.commands.export.names import TABLES as FORMATS
from memreplay.commands.shared.errors import CUT_OFF, attempt, say
from memreplay.commands.shared.source import opened
from memreplay.errors import UsageError
from memreplay.io.readahead import several_cpus
from memreplay.snapshot.model import MEASURES

if TYPE_CHECKING:
    from memreplay.analysis.categories.rules import Rule
    from memreplay.commands.export.options import Export
    from memreplay.export.tables import Table
    from memreplay.io.whole_files import Folder
    from memreplay.snapshot.snapshot import Snapshot

    Write = Callable[[Table, IO[bytes]], None]

_LONGEST = (
    "usage",
    "events",
    "allocations",
    "blocks",
    "frames",
    "stacks",
    "segments",
    "annotations",
)


def check_unmixed(path: str, *, ranks: bool) -> None:
    """Raises UsageError where tables of `ranks`, or of one snapshot, would lie beside the other."""
    from memreplay.export.tables.schema import TABLES
    from memreplay.io.dataset_files import rank_folder

    if not os.path.isdir(path):
        return
    if not ranks:
        there, whose = rank_folder(path, TABLES), "ranks"
    else:
        files = [one for one in os.listdir(path) if os.path.splitext(one)[1][1:] in FORMATS]
        found = [one for one in files if one.partition(".")[0] in TABLES]
        there, whose = min(found, default=None), "one snapshot"
    if there is not None:
        raise UsageError(f"{path} has tables from {whose} ({there}): name another folder")


def read(asked: Export, file: str) -> tuple[Snapshot | None, int]:
    """The snapshot and 0, or None and the exit code of what is wrong with it."""
    # What writes is imported while the file is read: both take as long for 500 MB.
    loading = Thread(target=_load, args=(asked.fmt,))
    is_loading = started(loading)

    def work() -> Snapshot:
        with opened(file, asked.reading) as snapshot:
            return snapshot

    # Not waited for where a signal raises: it may wait for a lock of imports that this left taken.
    found = attempt(file, work)
    if is_loading:
        loading.join()
    return found


def started(thread: Thread) -> bool:
    """Starts it; False where a system gives no more threads."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _load(fmt: str) -> None:
    """Imports all that writing takes."""
    # Its own allocators keep what they are given back: 65 MiB more for 500 MB, and not faster. Read
    # when pyarrow is loaded: what its C++ allocates is not under set_memory_pool().
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with suppress(ImportError, MemoryError):  # which are met again, and said, by who writes
        import_module("memreplay.export.tables")
        writer_of(fmt)
        import_module("pyarrow.parquet" if fmt == "parquet" else "pyarrow")


def writer_of(fmt: str) -> Write:
    """What writes a table in a format."""
    if fmt == "parquet":
        from memreplay.export.tables.parquet import write_parquet

        return write_parquet
    if fmt == "arrow":
        from memreplay.export.tables.ipc import write_arrow

        return write_arrow
    # Arrow's functions are registered when this is loaded, and a thread that writes meanwhile may
    # not find them (pyarrow 26: "No function registered with name: cast").
    with suppress(ImportError):  # which is said when it is asked for
        import_module("pyarrow.compute")
    from memreplay.export.tables import lines

    write: Write = getattr(lines, f"write_{fmt}")
    return write


def write_all(
    snapshot: Snapshot,
    names: Mapping[str, str],
    create: Folder,
    asked: Export,
    rules: tuple[Rule, ...],
    labels: Mapping[str, str | None] | None = None,
) -> dict[str, int]:
    """Writes tables, each into the file of its name, two at a time: encoding and compressing goes
    on without the GIL. Gives the rows of each."""
    from memreplay.export.tables import table

    write = writer_of(asked.fmt)

    def one(name: str) -> int:
        flat = flat_form(asked, name)
        made = table(snapshot, name, rules=rules, labels=labels, flat=flat)
        with create(names[name]) as out:
            write(made, out)
        return made.rows

    # What threads share is made before they do: the replays, and what the measures are made of; the
    # table that needs no measures is written meanwhile.
    for device in snapshot.devices:
        snapshot.replay(device)
    rows: dict[str, int] = {}
    errors: list[BaseException] = []
    left = deque(sorted(names, key=_LONGEST.index))
    is_measured = Event()

    def attempt_all() -> None:
        while not errors:
            try:
                name = left.popleft()
            except IndexError:
                return
            try:
                rows[name] = one(name)
            except BaseException as error:
                errors.append(error)

    def beside() -> None:
        if "events" in names:
            left.remove("events")
            is_begun.set()
            try:
                rows["events"] = one("events")
            except BaseException as error:
                errors.append(error)
        is_begun.set()
        is_measured.wait()
        attempt_all()

    # One writes here, one beside it; where there is no other thread all is written here.
    is_begun = Event()
    other = Thread(target=beside)
    is_other = several_cpus() and started(other)
    if is_other:
        is_begun.wait()
    try:
        if {"allocations", "usage"} & set(names):
            make_measures(snapshot)
    except BaseException as error:
        errors.append(error)
    is_measured.set()
    attempt_all()
    if is_other:
        other.join()
    if errors:
        raise errors[0]
    return {name: rows[name] for name in names}


def flat_form(asked: Export, name: str) -> bool:
    """Whether a table is written in its flat form."""
    return asked.options.flat and name == "allocations"


def make_measures(snapshot: Snapshot) -> None:
    """What the tables `allocations` and `usage` both need of each device."""
    for device in snapshot.devices:
        for measure in MEASURES:
            snapshot.replay(device).measure(measure).start_bytes  # noqa: B018 - made by this


def say_cut_off(snapshot: Snapshot, whose: str = "") -> None:
    """Says on stderr where tables are of a part of a snapshot."""
    if snapshot.truncation is not None:
        say(whose + CUT_OFF)
