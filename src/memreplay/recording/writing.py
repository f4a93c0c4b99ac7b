"""A snapshot as PyTorch makes it, with memreplay's own data in it, written to a file."""

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
"""The file of who names none. A later recording replaces it."""


def noted(
    traces: list[list[dict[str, Any]]],
    sure: int,
    modules: Sequence[str],
    steps: Sequence[int],
    keep: int,
) -> dict[str, Any]:
    """What was noted of the allocations of these traces, as it lies in a snapshot (docs/format.md).
    `steps` are times in microseconds, in order; `sure` as `joined` has it; `keep` is how many
    events PyTorch keeps."""
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
    """How many events there had been where each step ended; before these a 0, where the first step
    began with the first event. Of those that ended before it a ring has lost some or all events."""
    times = [int(event.get("time_us", 0)) for event in trace] if steps else []
    found = [bisect.bisect_right(times, step) for step in steps] if times else []
    lost = 0 in found or len(trace) >= keep
    return found[found.count(0) :] if lost or not found else [0, *found]


def free_name(path: str) -> str:
    """This path, or one like it that nothing has: snap-1.pickle."""
    if not os.path.lexists(path):
        return path
    count = 1
    while os.path.lexists(beside(path, f"-{count}")):
        count += 1
    return beside(path, f"-{count}")


def beside(path: str, more: str) -> str:
    """The same name with more in it, before its endings: snap.oom.pickle.gz."""
    folder, name = os.path.split(path)
    first, dot, rest = name.partition(".")
    for ending in (".pickle", ".pkl"):
        at = name.lower().rfind(ending)
        if at > 0:
            first, dot, rest = name[:at], ".", name[at + 1 :]
    return os.path.join(folder, f"{first}{more}{dot}{rest}")


def checked(path: str) -> str:
    """A path that a snapshot can be written to. Raises UsageError and MissingExtraError."""
    form, packing = by_name(path)
    if form == "json":
        raise UsageError(f"{path}: PyTorch's form is a pickle; memreplay export makes JSON of it")
    if path.lower().endswith((".html", ".htm")):
        raise UsageError(f"{path}: a snapshot is a pickle; memreplay view makes a page of it")
    with open(os.devnull, "wb") as out, packed(out, packing):
        pass
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise UsageError(f"{path}: there is no folder {folder}")
    if not os.path.basename(path) or os.path.isdir(path):
        raise UsageError(f"{path or repr(path)} is no name of a file")
    if not os.access(folder or ".", os.W_OK | os.X_OK):
        raise UsageError(f"{path}: the folder cannot be written to")
    if len(os.fsencode(os.path.basename(path))) > longest(folder or "."):
        raise UsageError(f"{path}: the name is too long")
    return path


def longest(folder: str) -> int:
    """How long a name may be there, so that those beside it fit, too: of parts, steps and ooms."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX") - len(".step-1000000-100.1000000-100.part")
    except (AttributeError, OSError, ValueError):  # Windows has none
        return 220


def write(path: str, snapshot: dict[str, Any], *, overwrite: bool) -> tuple[str, int]:
    """Writes it whole or not at all; where, and how many bytes. Raises MemreplayError."""
    whole = Whole(path, many=True)  # all ranks of a run, it may be
    try:
        with packed(whole.begin(), by_name(path)[1]) as to:
            pickle.dump(snapshot, to, protocol=4)  # the newest that the hosted viewer reads
        name = whole.finish(None if overwrite else partial(free_name, path))
        return path if overwrite else name, os.path.getsize(name)
    except OSError as error:
        raise MemreplayError(f"{path}: {error.strerror}; the snapshot is lost") from None
    finally:
        whole.undo()


def moved(part: str, path: str, *, overwrite: bool) -> str:
    """Gives a file its name, or one that is free; which."""
    return give_name(part, path, None if overwrite else partial(free_name, path))
