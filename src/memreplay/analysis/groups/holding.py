"""Find out who still held parts of a live set when the recorder looked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.engine.query import _groups
from memreplay.errors import UsageError
from memreplay.snapshot.record import Record, inlined
from memreplay.snapshot.recorded_holders import Holder, LookedWhen, recorded_holders

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
    """The holders of a live set. All bytes add up to the live set's."""

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
    allocated_after_bytes: int
    """Bytes that were allocated after the recorder looked."""
    allocated_after_count: int
    """Number of allocations in `allocated_after_bytes`."""
    unknown_bytes: int
    """Bytes without a note."""
    after_events: int
    """How many events after this moment the recorder looked; negative if it looked before."""
    after_us: int | None
    """How long after this moment the last event before the look was; null without times."""
    when: LookedWhen
    """When the recorder looked, as in [`memreplay report`](report.md)."""
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
    looked = None if way.blocks is None else way.blocks.moment(replay)
    if noted is None or looked is None:
        return None
    keys = grouper.dimensions.keys(usage, way.name)
    found, *_ = keys.sums(usage.listed(event), usage.native, 0)
    sizes = {name: (n_bytes, count) for name, _, n_bytes, count, _ in found}
    freed_bytes, freed_count = sizes.pop(way.freed, (0, 0))
    later_bytes, later_count = sizes.pop(way.later, (0, 0))
    unknown_bytes, _ = sizes.pop(way.not_noted, (0, 0))
    groups = [
        _live(noted.groups[name], *size) for name, size in sizes.items() if name < len(noted.groups)
    ]
    shown = tuple(groups[:top] if top else groups)
    whole = sum(n_bytes for n_bytes, _ in sizes.values())
    then, now = replay.time_us(event), replay.time_us(looked)
    return LiveHolders(
        groups=shown,
        other_groups=len(sizes) - len(shown),
        other_bytes=whole - sum(one.bytes for one in shown),
        freed_bytes=freed_bytes,
        freed_count=freed_count,
        allocated_after_bytes=later_bytes,
        allocated_after_count=later_count,
        unknown_bytes=unknown_bytes,
        after_events=looked - event,
        after_us=None if then is None or now is None else now - then,
        when=noted.when,
        complete=noted.complete,
    )


class HoldersOfGroups:
    """The holders of the allocations of each group in `keys`, of those live after an event. By
    default, that's the moment when the recorder looked.
    """

    def __init__(
        self, grouper: Grouper, usage: Usage, keys: Keys, event: int | None = None
    ) -> None:
        self._found: dict[int, list[LiveHolder]] = {}
        noted = recorded_holders(grouper.snap)
        way = grouper.dimensions.holder
        looked = None if way.blocks is None else way.blocks.moment(usage.replay)
        if noted is None or looked is None:
            return
        pairs = _groups.pair(keys, grouper.dimensions.keys(usage, way.name))
        rows, *_ = pairs.sums(usage.listed(looked if event is None else event), usage.native, 0)
        first, second = (memoryview(one.names()).tolist() for one in pairs.of)
        for pair, _, n_bytes, count, _ in rows:
            name, holder = first[pair >> 32], second[pair & 0xFFFFFFFF]
            if holder < len(noted.groups):
                self._found.setdefault(name, []).append(_live(noted.groups[holder], n_bytes, count))

    def of(self, name: int) -> tuple[LiveHolder, ...]:
        """Return the largest holders of the group with this name."""
        return tuple(self._found.get(name, ())[:MOST_EACH])


def _live(holder: Holder, n_bytes: int, count: int) -> LiveHolder:
    return LiveHolder(**inlined(Holder, holder), bytes=n_bytes, count=count)
