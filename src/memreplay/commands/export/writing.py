"""Compute what a snapshot's tables share, then write the tables, two at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from threading import Event, Thread
from typing import IO, TYPE_CHECKING

from memreplay.commands.shared.errors import CUT_OFF, attempt, say
from memreplay.commands.shared.source import opened
from memreplay.errors import UsageError
from memreplay.export.naming import TABLES as FORMATS
from memreplay.io.parallel import started
from memreplay.io.readahead import several_cpus
from memreplay.snapshot.model import MEASURES

if TYPE_CHECKING:
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
    """Raise UsageError if the folder would contain both tables of several ranks and tables of one
    snapshot.
    """
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
        raise UsageError(f"{path} has tables from {whose} ({there}); choose another folder")


def read(asked: Export, file: str) -> tuple[Snapshot | None, int]:
    """Read the snapshot. Return it and 0, or None and the error's exit code."""
    # Import the writers while the file is being read. For a file of 500 MB, both take the same
    # time.
    loading = Thread(target=_load, args=(asked.fmt,))
    is_loading = started(loading)

    def work() -> Snapshot:
        with opened(file, asked.reading) as snapshot:
            return snapshot

    # If a signal handler raises, don't join the thread, which could deadlock on an import lock.
    found = attempt(file, work)
    if is_loading:
        loading.join()
    return found


def _load(fmt: str) -> None:
    """Import everything that writing needs."""
    # Arrow's own allocators keep freed memory (65 MiB for a file of 500 MB), and they aren't
    # faster. pyarrow reads the variable when it's imported; set_memory_pool() doesn't cover its C++
    # allocations.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with suppress(ImportError, MemoryError):  # the writer meets the same error and reports it
        import_module("memreplay.export.tables")
        writer_of(fmt)
        import_module("pyarrow.parquet" if fmt == "parquet" else "pyarrow")


def writer_of(fmt: str) -> Write:
    """Return the function that writes a table in a format."""
    if fmt == "parquet":
        from memreplay.export.tables.parquet import write_parquet

        return write_parquet
    if fmt == "arrow":
        from memreplay.export.tables.ipc import write_arrow

        return write_arrow
    # Importing this registers Arrow's functions. A thread that writes in the meantime might not
    # find them (in pyarrow 26: "No function registered with name: cast").
    with suppress(ImportError):  # the error is reported when Arrow is used
        import_module("pyarrow.compute")
    from memreplay.export.tables import lines

    write: Write = getattr(lines, f"write_{fmt}")
    return write


def write_all(
    snapshot: Snapshot,
    names: Mapping[str, str],
    create: Folder,
    asked: Export,
    labels: Mapping[str, str | None] | None = None,
) -> dict[str, int]:
    """Write tables to their files, two at a time, because encoding and compression release the GIL.

    Return each table's number of rows.
    """
    from memreplay.export.tables import table

    write, rules = writer_of(asked.fmt), asked.reading.config.rules()

    def one(name: str) -> int:
        flat = flat_form(asked, name)
        made = table(snapshot, name, rules=rules, labels=labels, flat=flat)
        with create(names[name]) as out:
            write(made, out)
        return made.rows

    # First compute the replays and measures that the threads share. Meanwhile, write the table that
    # doesn't need them.
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

    # A second thread helps to write. If it can't be started, the current thread writes everything.
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
    """Return whether a table gets the columns that --flat adds."""
    return asked.options.flat and name == "allocations"


def make_measures(snapshot: Snapshot) -> None:
    """Compute what the tables `allocations` and `usage` need, for each device."""
    for device in snapshot.devices:
        for measure in MEASURES:
            snapshot.replay(device).measure(measure).start_bytes  # noqa: B018 - made by this


def say_cut_off(snapshot: Snapshot, whose: str = "") -> None:
    """If a snapshot is truncated, print to stderr that the tables only cover a part of it."""
    if snapshot.truncation is not None:
        say(whose + CUT_OFF)
