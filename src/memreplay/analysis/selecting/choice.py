"""What an analysis is of: the measure on each device that was chosen, and how it may be grouped."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from memreplay.analysis.groups.ways import WAYS, is_of_parts
from memreplay.analysis.selecting.selection import Filters
from memreplay.errors import UsageError
from memreplay.snapshot.model import By, MeasureName

if TYPE_CHECKING:
    from memreplay.analysis.selecting.filters import Filtering
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.snapshot.replay import Usage
    from memreplay.snapshot.snapshot import Snapshot


# How reserved memory may be grouped by who asked for its segments.
BY_STACK = tuple(name for name, way in WAYS.items() if way.code)


def fitting_by(measure: MeasureName, by: By | None, *, asked_for: bool = False) -> By:
    """How to group: as asked, else by "stack" ("pool" for reserved memory, whose blocks have no
    stacks). `asked_for` allows reserved memory by who asked for its segments.

    Raises UsageError where the measure cannot be grouped so.
    """
    by = by or ("pool" if measure == "reserved" else "stack")
    stacks = BY_STACK if asked_for else ()
    if measure == "reserved" and not is_of_parts(by) and by not in stacks:
        more = f", or by who asked for it ({', '.join(stacks)})" if stacks else ""
        raise UsageError(f"reserved memory is grouped by pool or stream{more}, not by {by}")
    return by


def check_reserved(by: By, measure: MeasureName, *parts: object) -> None:
    """Raises UsageError for reserved memory by who asked for it, of one pool or stream alone."""
    if measure == "reserved" and by in BY_STACK and any(part is not None for part in parts):
        raise UsageError(
            f"reserved memory by {by} covers all pools and streams: leave out --pool and --stream"
        )


def device_pairs(base: Collection[int], new: Collection[int]) -> list[tuple[int, int]]:
    """The devices of two files that are compared, base and new: those that both have. Where there
    is none such but one in each, these two: ranks of one job are on devices of their own."""
    both = [(device, device) for device in new if device in base]
    if not both and len(base) == len(new) == 1:
        both = list(zip(base, new, strict=True))
    return both


def chosen_usages(snap: Snapshot, selection: Selection) -> list[Usage]:
    """The measure on each chosen device that has the pool and stream, of the allocations that pass
    the filters.

    Raises UsageError when no device has them, for filters of reserved memory, and for a pattern
    that no frame meets.
    """
    found = []
    filtering = filtering_of(snap, selection.filters)
    missing = None
    for device in chosen_devices(snap, selection):
        replay = snap.replay(device)
        usage = replay.measure(selection.measure, pool=selection.pool, stream=selection.stream)
        try:
            # Only now is it looked up.
            _ = usage.start_bytes
        except UsageError as error:
            missing = missing or str(error)
        else:
            found.append(usage if filtering is None else filtering.filtered(usage))
    if missing is not None and not found:
        raise UsageError(missing)
    return found


def chosen_devices(snap: Snapshot, selection: Selection) -> tuple[int, ...]:
    """The device that was chosen, else all that were read."""
    return snap.devices if selection.device is None else (selection.device,)


def filtering_of(
    snap: Snapshot, filters: Filters | None, *, checked: bool = True
) -> Filtering | None:
    """The filters made ready for this snapshot; None where there are none.

    Raises UsageError for a pattern that no frame meets, unless that is for others to check.
    """
    if not filters:
        return None
    from memreplay.analysis.selecting.filters import Filtering

    found = Filtering(snap, filters)
    if checked:
        found.check()
    return found
