"""Write PyTorch's snapshot with memreplay's data to a file."""

from __future__ import annotations

import bisect
import contextlib
import errno
import os
import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import IO, Any, NamedTuple

from memreplay.engine.record import _tracker
from memreplay.errors import MemreplayError, UsageError
from memreplay.io.packing import as_text, by_name, packed
from memreplay.io.urls import as_os_errors, is_url, system_of, without_secrets
from memreplay.io.whole import Whole, give_name
from memreplay.recording.facts import ranks_of_environment

DEFAULT = "snapshot.pickle"
"""The default file. A later recording replaces it."""
LARGE_BYTES = 64 << 20
"""Larger snapshots are compressed if the recorder chooses their names."""
PACKED = ".gz"
FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


def noted(
    traces: list[list[dict[str, Any]]],
    sure: int,
    modules: Sequence[str],
    steps: Sequence[int],
    keep: int,
) -> dict[str, Any]:
    """Return the notes for these traces in the snapshot's form (docs/format.md).

    `steps`: sorted times in microseconds. `sure`: as in `joined`. `keep`: how many events PyTorch
    keeps.
    """
    kinds, columns, addresses, of_addresses = _tracker.joined(traces, sure)
    return {
        "allocations": {
            "categories": list(_tracker.CATEGORIES),
            "phases": list(_tracker.PHASES),
            "modules": list(modules),
            "kinds": as_text(kinds),
            "events": [as_text(column) for column in columns],
            "before": {"addresses": as_text(addresses), "kinds": as_text(of_addresses)},
        },
        "steps": [boundaries(trace, steps, keep) for trace in traces],
    }


def boundaries(trace: list[dict[str, Any]], steps: Sequence[int], keep: int) -> list[int]:
    """Return the number of events before each step's end.

    Starts with 0 if the first step begins with the first event. The ring buffer may no longer have
    the events of earlier steps.
    """
    times = [int(event.get("time_us", 0)) for event in trace] if steps else []
    found = [bisect.bisect_right(times, step) for step in steps] if times else []
    lost = 0 in found or len(trace) >= keep
    return found[found.count(0) :] if lost or not found else [0, *found]


def own_path(path: str, ranks: tuple[int, int] | None = None) -> str:
    """Return the path for this rank: fill in {rank}, or add it.

    `ranks`: the rank and world size; the environment's if unknown.
    """
    rank, world = ranks or ranks_of_environment()
    if "{rank}" in path:
        return path.replace("{rank}", str(rank or 0))
    return beside(path, f".rank{rank or 0}") if (world or 1) > 1 else path


def command(path: str) -> str:
    """Return the command that explains a failed request."""
    import shlex

    return f"memreplay oom {shlex.quote(os.path.abspath(path) if not is_url(path) else path)}"


def exists(path: str) -> bool:
    """Return whether a file or URL exists. Raises OSError if a store can't tell."""
    if not is_url(path):
        return os.path.lexists(path)
    with as_os_errors():
        system, there = system_of(path)
        return bool(system.exists(there))


def free_name(path: str) -> str:
    """Return this path, or an unused variant such as snap-1.pickle."""
    if not exists(path):
        return path
    count = 1
    while exists(beside(path, f"-{count}")):
        count += 1
    return beside(path, f"-{count}")


def beside(path: str, more: str) -> str:
    """Insert text before a path's suffixes: snap.oom.pickle.gz."""
    folder, name = os.path.split(path)
    first, dot, rest = name.partition(".")
    for ending in (".pickle", ".pkl"):
        at = name.lower().rfind(ending)
        if at > 0:
            first, dot, rest = name[:at], ".", name[at + 1 :]
    return os.path.join(folder, f"{first}{more}{dot}{rest}")


def checked(path: str) -> str:
    """Return a writable path. Raises UsageError and MissingExtraError."""
    form, packing = by_name(path)
    if form == "json":
        raise UsageError(f"{path}: snapshots are pickles; memreplay export converts them to JSON")
    if path.lower().endswith((".html", ".htm")):
        raise UsageError(f"{path}: snapshots are pickles; memreplay view turns one into a page")
    with open(os.devnull, "wb") as out, packed(out, packing):
        pass
    if is_url(path):
        system_of(path)
        if not file_name(path):
            raise UsageError(f"{without_secrets(path)} doesn't name a file")
        return path
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise UsageError(f"{path}: no such folder: {folder}")
    if not os.path.basename(path) or os.path.isdir(path):
        raise UsageError(f"{path or repr(path)} isn't a file name")
    if not os.access(folder or ".", os.W_OK | os.X_OK):
        raise UsageError(f"{path}: the folder isn't writable")
    if len(os.fsencode(os.path.basename(path))) > longest(folder or "."):
        raise UsageError(f"{path}: the file name is too long")
    return path


def file_name(url: str) -> str:
    """Return the last part of a URL's path."""
    return url.partition("?")[0].rpartition("/")[2]


def longest(folder: str) -> int:
    """Return how long a file name may be so that the names derived from it fit, too."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX") - len(".step-1000000-100.1000000-100.part")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return 220


class Written(NamedTuple):
    """A file that was written, and if it isn't where it should be, the reason."""

    name: str
    size: int
    why: str = ""


class Replacing(NamedTuple):
    """Which existing file a new one replaces; otherwise, the new one gets another name."""

    wanted: bool
    """Replace an existing file."""
    since_ns: int | None = None
    """Not if it was written after this time: then it's another process's of the same run."""

    def applies(self, path: str) -> bool:
        """Return whether a local file may be replaced now."""
        if not self.wanted or self.since_ns is None:
            return self.wanted
        try:
            return os.stat(path).st_mtime_ns < self.since_ns
        except OSError:
            return False  # no file exists; if another process is faster, its file stays


NEVER = Replacing(False)


def write(
    path: str, snapshot: dict[str, Any], *, replacing: Replacing, packs: bool = False
) -> Written:
    """Write a snapshot atomically. Raises MemreplayError.

    With `packs`, a large snapshot is compressed and its name gets `.gz`.
    """
    try:
        found = _written(path, snapshot, replacing, packs)
    except OSError as error:
        raise MemreplayError(f"{path}: {error.strerror}; the snapshot is lost") from None
    if found.why:
        raise MemreplayError(
            f"{without_secrets(path)}: {found.why}; the snapshot is in {found.name}"
        )
    return found


def write_anywhere(
    path: str, snapshot: dict[str, Any], *, replacing: Replacing, packs: bool = False
) -> Written:
    """Write a snapshot to this path or, if that fails, to a compressed file: next to it if the disk
    is full, then in the system's folder for temporary files. Raises MemreplayError.
    """
    why = None
    for other in (path, *elsewhere(path)):
        if (
            why is not None
            and other is not path
            and why.errno not in FULL
            and not is_temporary(other)
        ):
            continue
        try:
            found = _written(other, snapshot, replacing if other is path else NEVER, packs)
        except OSError as error:
            why = why or error
        else:
            return found if why is None else found._replace(why=why.strerror or str(why))
    words = why.strerror if why is not None else ""
    raise MemreplayError(f"{path}: {words}; the snapshot is lost")


def elsewhere(path: str) -> Iterator[str]:
    """Yield the compressed files to try if a path can't be written to."""
    name = os.path.basename(path)
    ending = "" if by_name(path)[1] else PACKED
    if ending:
        yield path + ending
    with contextlib.suppress(OSError):
        yield os.path.join(temporary(), name + ending)


def temporary() -> str:
    """Return the system's folder for temporary files. Raises OSError if none is writable."""
    import tempfile

    return tempfile.gettempdir()


def is_temporary(path: str) -> bool:
    return os.path.dirname(path) == temporary()


def _written(path: str, snapshot: dict[str, Any], replacing: Replacing, packs: bool) -> Written:
    """Write a snapshot to a file or a URL. Raises OSError."""
    if not is_url(path):
        return _written_here(path, snapshot, replacing, packs)
    found = _written_here(os.path.join(temporary(), file_name(path)), snapshot, NEVER, packs)
    try:
        to = path + (PACKED if found.name.endswith(PACKED) and not path.endswith(PACKED) else "")
        to = to if replacing.wanted else free_name(to)
        with as_os_errors():
            system, there = system_of(to)
            system.put_file(found.name, there)
    except (OSError, MemreplayError) as error:
        return found._replace(why=str(error))
    os.unlink(found.name)
    return found._replace(name=without_secrets(to))


def _written_here(
    path: str, snapshot: dict[str, Any], replacing: Replacing, packs: bool
) -> Written:
    whole = Whole(path, many=True)  # possibly called by all of a run's ranks
    packing = by_name(path)[1]
    try:
        out = whole.begin()
        with Growing(out) if packs and packing is None else packed(out, packing) as to:
            # The newest protocol that the hosted viewer can read.
            pickle.dump(snapshot, to, protocol=4)
        if isinstance(to, Growing) and to.packs:
            path += PACKED
            whole.path = os.path.realpath(path)
        replaces = replacing.applies(path)
        name = whole.finish(None if replaces else partial(free_name, path))
        name = path if replaces else name
        return Written(name, os.path.getsize(name))
    finally:
        whole.undo()


class Growing(contextlib.AbstractContextManager["Growing"]):
    """A file that compresses what is written to it if that's large."""

    def __init__(self, out: IO[bytes]) -> None:
        self.out = out
        self.held: list[bytes] = []
        self.size = 0
        self.packed: Any = None
        self.packs = False

    def write(self, data: bytes) -> int:
        if self.packs:
            return int(self.packed[1].write(data))
        self.held.append(bytes(data))
        self.size += len(data)
        if self.size > LARGE_BYTES:
            self.packs = True
            around = packed(self.out, "gzip")
            self.packed = around, around.__enter__()
            self.empty(self.packed[1])
        return len(data)

    def empty(self, to: IO[bytes]) -> None:
        for piece in self.held:
            to.write(piece)
        self.held.clear()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.packs:
            self.packed[0].__exit__(kind, error, trace)
        elif error is None:
            self.empty(self.out)


def moved(part: str, path: str, *, replacing: Replacing) -> str:
    """Rename a finished partial file to its name or a free one, and return that name."""
    return give_name(part, path, None if replacing.applies(path) else partial(free_name, path))
