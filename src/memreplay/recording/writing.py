"""Write PyTorch's snapshot with memreplay's data to a file."""

from __future__ import annotations

import bisect
import os
import pickle
from collections.abc import Sequence
from functools import partial
from typing import Any

from memreplay.engine.record import _tracker
from memreplay.errors import MemreplayError, UsageError
from memreplay.io.packing import as_text, by_name, packed
from memreplay.io.whole import Whole, give_name

DEFAULT = "snapshot.pickle"
"""The default file. A later recording replaces it."""


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


def free_name(path: str) -> str:
    """Return this path, or an unused variant such as snap-1.pickle."""
    if not os.path.lexists(path):
        return path
    count = 1
    while os.path.lexists(beside(path, f"-{count}")):
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


def longest(folder: str) -> int:
    """Return how long a file name may be so that the names derived from it fit, too."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX") - len(".step-1000000-100.1000000-100.part")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return 220


def write(path: str, snapshot: dict[str, Any], *, overwrite: bool) -> tuple[str, int]:
    """Write a snapshot atomically. Return its path and size in bytes. Raises MemreplayError."""
    whole = Whole(path, many=True)  # possibly called by all of a run's ranks
    try:
        with packed(whole.begin(), by_name(path)[1]) as to:
            # The newest protocol that the hosted viewer can read.
            pickle.dump(snapshot, to, protocol=4)
        name = whole.finish(None if overwrite else partial(free_name, path))
        return path if overwrite else name, os.path.getsize(name)
    except OSError as error:
        raise MemreplayError(f"{path}: {error.strerror}; the snapshot is lost") from None
    finally:
        whole.undo()


def moved(part: str, path: str, *, overwrite: bool) -> str:
    """Rename a finished partial file to its name or a free one, and return that name."""
    return give_name(part, path, None if overwrite else partial(free_name, path))
