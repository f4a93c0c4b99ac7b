"""Apply a selection: choose the measure and devices, and check that the measure can be grouped as
requested.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from memreplay.analysis.groups.ways import WAYS, is_of_parts
from memreplay.analysis.selecting.selection import Filters
from memreplay.errors import NothingToTellError, UsageError
from memreplay.snapshot.backends import for_backend
from memreplay.snapshot.model import By, MeasureName

if TYPE_CHECKING:
    from memreplay.analysis.selecting.filters import Filtering
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


_UNKNOWN = "reserved memory isn't known: the file has neither segments nor segment events"
NO_RESERVED = f"{_UNKNOWN}; torch.cuda.memory._dump_snapshot() writes both"

# Keys that can group reserved memory by the requesting code.
BY_STACK = tuple(name for name, way in WAYS.items() if way.code)


def fitting_by(measure: MeasureName, by: By | None, *, by_request: bool = False) -> By:
    """Return the key to group by: `by`, or by default "stack" ("pool" for reserved memory, which
    has no stacks).

    `by_request`: allow grouping reserved memory by requesting code. Raises UsageError if the
    measure can't be grouped by this key.
    """
    by = by or ("pool" if measure == "reserved" else "stack")
    stacks = BY_STACK if by_request else ()
    if measure == "reserved" and not is_of_parts(by) and by not in stacks:
        more = f", or by the requesting code ({', '.join(stacks)})" if stacks else ""
        raise UsageError(f"reserved memory is grouped by pool or stream{more}, not by {by}")
    return by


def check_reserved(by: By, measure: MeasureName, *parts: object) -> None:
    """Raise UsageError if the selection groups the reserved memory of one pool or stream by
    requesting code.
    """
    if measure == "reserved" and by in BY_STACK and any(part is not None for part in parts):
        raise UsageError(
            f"reserved memory by {by} covers all pools and streams; leave out --only pool"
            " and --only stream"
        )


def device_pairs(base: Collection[int], new: Collection[int]) -> list[tuple[int, int]]:
    """Return the (base, new) devices to compare, which are those in both files.

    If the files share no device but each has exactly one, compare these two, because each rank of a
    job has its own device.
    """
    both = [(device, device) for device in new if device in base]
    if not both and len(base) == len(new) == 1:
        both = list(zip(base, new, strict=True))
    return both


def chosen_usages(snap: Snapshot, selection: Selection) -> list[Usage]:
    """Return the filtered measure on each selected device that has the selected pool and stream.

    Raises UsageError if there is no such device, for filters on reserved memory, and for patterns
    that match no frame. Raises NothingToTellError for reserved memory if the file doesn't show any.
    """
    found = []
    filtering = filtering_of(snap, selection.filters)
    missing: UsageError | None = None
    for device in chosen_devices(snap, selection):
        replay = snap.replay(device)
        if selection.measure == "reserved" and not replay.shows_reserved:
            missing = missing or no_reserved(replay.backend.name)
            continue
        usage = replay.measure(selection.measure, pool=selection.pool, stream=selection.stream)
        try:
            # Access a value now, so that a missing measure raises its error here.
            _ = usage.start_bytes
        except UsageError as error:
            missing = missing or error
        else:
            found.append(usage if filtering is None else filtering.filtered(usage))
    if missing is not None and not found:
        raise missing
    return found


def no_reserved(backend: str) -> NothingToTellError:
    """Return the error for a file without reserved memory."""
    return NothingToTellError(for_backend(NO_RESERVED, backend), brief=_UNKNOWN)


def shows_reserved(snap: Snapshot, selection: Selection) -> bool:
    """Return whether the file shows reserved memory of any selected device."""
    return any(snap.replay(device).shows_reserved for device in chosen_devices(snap, selection))


def chosen_devices(snap: Snapshot, selection: Selection) -> tuple[int, ...]:
    """Return the selected device, or all devices that were read."""
    return snap.devices if selection.device is None else (selection.device,)


def filtering_of(
    snap: Snapshot, filters: Filters | None, *, checked: bool = True
) -> Filtering | None:
    """Prepare the filters for this snapshot; None if there are none.

    If `checked`, raises UsageError for a pattern that matches no frame.
    """
    if not filters:
        return None
    from memreplay.analysis.selecting.filters import Filtering

    found = Filtering(snap, filters)
    if checked:
        found.check()
    return found
