"""Find out who still held parts of a live set when the recorder looked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.engine.query import _groups
from memreplay.errors import UsageError
from memreplay.snapshot.record import Record
from memreplay.snapshot.recorded_holders import Holder, recorded_holders

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Usage

MOST_EACH = 3  # maximum number of holders of one group


class LiveHolder(Holder, frozen=True):
    """A part of a live set that a Python object kept alive until the recorder looked."""

    bytes: int
    """Bytes of these allocations."""
    count: int
    """Number of these allocations."""


class LiveHolders(Record, frozen=True):
    """Who held a live set. The groups' bytes and the other `bytes` add up to the live set's."""

    groups: tuple[LiveHolder, ...]
    """Largest first."""
    other_groups: int
    """Number of groups that aren't listed."""
    other_bytes: int
    """Bytes of the groups that aren't listed, and of holders that the file doesn't list."""
    freed_bytes: int
    """Bytes that were freed before the recorder looked, so that their holder isn't known."""
    freed_count: int
    """Number of allocations that were freed before the recorder looked."""
    unknown_bytes: int
    """Bytes without a note."""
    after_events: int
    """Number of events between this moment and the recorder's look."""
    after_us: int | None
    """Time between this moment and the last event before the recorder looked."""
    complete: bool
    """Whether the recorder looked at everything in time."""


def live_holders(grouper: Grouper, usage: Usage, event: int, top: int) -> LiveHolders | None:
    """Return who held the live set after an event; None if the file doesn't say.

    The recorder looked at the end of the recording. `top` limits the number of groups (0: all).
    Raises UsageError for reserved memory.
    """
    if usage.measure == "reserved":
        raise UsageError("reserved memory has no holders; choose another --measure")
    noted = recorded_holders(grouper.snap)
    way = grouper.dimensions.holder
    replay = usage.replay
    if noted is None or way.is_uninformative(replay):
        return None
    keys = grouper.dimensions.keys(usage, way.name)
    found, *_ = keys.sums(usage.listed(event), usage.native, 0)
    sizes = {name: (n_bytes, count) for name, _, n_bytes, count, _ in found}
    freed_bytes, freed_count = sizes.pop(way.freed, (0, 0))
    unknown_bytes, _ = sizes.pop(way.not_noted, (0, 0))
    groups = [
        _live(noted.groups[name], *size) for name, size in sizes.items() if name < len(noted.groups)
    ]
    shown = tuple(groups[:top] if top else groups)
    whole = sum(n_bytes for n_bytes, _ in sizes.values())
    last = replay.first_event + replay.events - 1
    then, now = replay.time_us(event), replay.time_us(last)
    return LiveHolders(
        groups=shown,
        other_groups=len(sizes) - len(shown),
        other_bytes=whole - sum(one.bytes for one in shown),
        freed_bytes=freed_bytes,
        freed_count=freed_count,
        unknown_bytes=unknown_bytes,
        after_events=last - event,
        after_us=None if then is None or now is None else max(0, now - then),
        complete=noted.complete,
    )


class HoldersOfGroups:
    """Who still holds each group's allocations at the end of a recording."""

    def __init__(self, grouper: Grouper, usage: Usage, keys: Keys) -> None:
        self._found: dict[int, list[LiveHolder]] = {}
        noted = recorded_holders(grouper.snap)
        way = grouper.dimensions.holder
        if noted is None or way.is_uninformative(usage.replay):
            return
        pairs = _groups.pair(keys, grouper.dimensions.keys(usage, way.name))
        last = usage.replay.first_event + usage.replay.events - 1
        rows, *_ = pairs.sums(usage.listed(last), usage.native, 0)
        first, second = (memoryview(one.names()).tolist() for one in pairs.of)
        for pair, _, n_bytes, count, _ in rows:
            name, holder = first[pair >> 32], second[pair & 0xFFFFFFFF]
            if holder < len(noted.groups):
                self._found.setdefault(name, []).append(_live(noted.groups[holder], n_bytes, count))

    def of(self, name: int) -> tuple[LiveHolder, ...]:
        """Return the largest holders of the group with this name."""
        return tuple(self._found.get(name, ())[:MOST_EACH])


def _live(holder: Holder, n_bytes: int, count: int) -> LiveHolder:
    return LiveHolder(
        kind=holder.kind,
        name=holder.name,
        function=holder.function,
        file=holder.file,
        line=holder.line,
        type_name=holder.type_name,
        bytes=n_bytes,
        count=count,
    )
