"""Reserved memory that is not in use: its course, where it lies at a moment, and what blocks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.mapped import blockers_of, map_sums, map_verdict, pool_of
from memreplay.analysis.groups.records import Kind
from memreplay.analysis.moments.moments import resolve
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import At, Selection
from memreplay.analysis.trust.facts import device_facts
from memreplay.commands.fragmentation.result import (
    DeviceFragmentation,
    FragmentationReport,
    MappedBlock,
    MappedSegment,
    Moment,
    PointName,
    PoolShare,
    UnusedPoint,
)
from memreplay.declared import Options
from memreplay.errors import UsageError
from memreplay.snapshot.record import inlined
from memreplay.snapshot.recorded_allocator import fullest, unused_bytes

if TYPE_CHECKING:
    from typing import Literal

    from memreplay.engine.query._blockmap import BlockMap
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

PEAKS = 3  # of active bytes that are told
FREE_LABEL = ""


class FragmentationOptions(Options, frozen=True):
    """Which moment, and how much of its segments."""

    at: At = None
    """None for where a request failed, else where most was reserved or active."""
    bars: int = 0
    """How many characters draw a segment; 0 for no map."""
    blocks: bool = False
    """Whether all segments have their blocks."""


@takes(selection=Selection, options=FragmentationOptions)
def fragmentation_report(
    snap: Snapshot, selection: Selection, options: FragmentationOptions
) -> FragmentationReport:
    """Every device that was read. `at` is the moment of the block map, one that matters where it is
    not given; its peaks are those of active bytes.

    `top` cuts the groups that block it (0: all of them), and the segments where `bars` characters
    each are asked for. `blocks` gives all segments with their blocks. A device without that moment
    is left out, and `missing` says why. Raises UsageError where none has it.

    With `fold` stacks that differ only in plumbing are one group.
    """
    at = options.at
    by = selection.by or "stack"
    grouper = Grouper(snap, by, selection.rules, fold=selection.fold)
    found: list[DeviceFragmentation] = []
    missing: list[str] = []
    for device in chosen_devices(snap, selection):
        replay = snap.replay(device)
        points, mean = _course(replay)
        moment, event = _telling(replay, points)
        if at is not None:
            moment = "asked"
            try:
                event = resolve(snap, replay.measure("active"), at)
            except UsageError as error:
                missing.append(str(error))
                continue
        block_map = replay.block_map(event)
        trust = map_verdict(snap, replay, strict=selection.strict)
        found.append(
            DeviceFragmentation(
                **inlined(DeviceFragmentation, device_facts(snap, replay, trust)),
                points=points,
                unused_bytes=unused_bytes(replay),
                mean_unused_bytes=mean,
                moment=moment,
                event_index=event,
                time_us=replay.time_us(event),
                **_at_moment(replay, block_map, grouper, selection.top),
                map=_map(replay, block_map, grouper, selection.top, options),
                map_total=block_map.n_segments,
            )
        )
    if missing and not found:
        raise UsageError(missing[0])
    return FragmentationReport(
        file=snap.file,
        by=by,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        missing=tuple(dict.fromkeys(missing)),
        devices=tuple(found),
        asked=at is not None,
    )


def _at_moment(replay: Replay, found: BlockMap, grouper: Grouper, top: int) -> dict[str, Any]:
    """Where the free memory lies at the moment of the map, and what blocks it."""
    blockers, total, rest_bytes, rest_count = blockers_of(
        replay.measure("active"), found, grouper, top
    )
    returned, returned_free = found.returnable
    private, private_free = found.private_returnable
    sums = map_sums(found.sums())
    held = sums["in_use_bytes"] + sums["pending_bytes"]
    free, largest = sums["free_bytes"], sums["largest_free_bytes"]
    return {
        **sums,
        "slack_bytes": held - sums["requested_bytes"],
        "scattered_share": 1 - largest / free if free else 0.0,
        "returned_bytes": returned,
        "returned_pending_bytes": returned - returned_free,
        "private_bytes": private,
        "private_pending_bytes": private - private_free,
        "pinned_bytes": found.blocked,
        "outside_bytes": found.outside[0],
        "outside_count": found.outside[1],
        "pools": _pools(replay, found),
        "pins": blockers,
        "pins_total": total,
        "pins_rest_bytes": rest_bytes,
        "pins_rest_count": rest_count,
    }


def _course(replay: Replay) -> tuple[tuple[UnusedPoint, ...], int | None]:
    """The moments that tell how reserved and active bytes went apart, in the order of events, and
    the mean over time of reserved less active bytes."""
    from memreplay.engine.query import _blockmap
    from memreplay.engine.replay import _measures

    reserved, active = replay.measure("reserved"), replay.measure("active")
    start = reserved.start_bytes - active.start_bytes
    unused = _blockmap.unused(replay.blocks, reserved.column, active.column, start)
    extremes = _measures.extremes(unused, start, replay.times)

    def point(name: PointName, event: int) -> UnusedPoint:
        whole, used = reserved.bytes_at(event), active.bytes_at(event)
        return UnusedPoint(name, event, replay.time_us(event), whole, used, whole - used)

    points = [point("most_unused", extremes[1] + replay.first_event)]
    points += [point("peak", one.event_index) for one in active.peaks(PEAKS)]
    points.append(point("reserved", fullest(replay)))
    points += [point("oom", event) for event in replay.events_of("oom")[:1]]
    if replay.events:
        points += [point("start", replay.start), point("end", replay.start + replay.events)]
    points.sort(key=lambda one: one.event_index)
    # Of the series themselves: `unused` is without what is brought a moment before its use.
    whole, used = (
        _measures.extremes(one.column, one.start_bytes, replay.times)[5]
        for one in (reserved, active)
    )
    return tuple(points), None if whole is None or used is None else round(whole - used)


def _telling(replay: Replay, points: tuple[UnusedPoint, ...]) -> tuple[Moment, int]:
    """The moment at which unused memory matters, and why of it: where a request failed, else where
    most is reserved. What was cached when the recording began stood in nobody's way as long as no
    more was asked for: then it is where most is active."""
    if not replay.events:
        return "end", replay.start
    at = {one.name: one.event_index for one in reversed(points)}
    if "oom" in at:
        return "oom", at["oom"]
    if replay.measure("reserved").peak.event_index >= replay.first_event:
        return "reserved", at["reserved"]
    return "peak", replay.measure("active").peak.event_index


def _pools(replay: Replay, found: BlockMap) -> tuple[PoolShare, ...]:
    return tuple(
        PoolShare(pool_of(replay, found, pool), default, stream, _kind(small), **map_sums(sums))
        for pool, stream, small, default, sums in found.shares()
    )


def _kind(small: bool) -> Kind:
    return "small" if small else "large"


def _map(
    replay: Replay,
    found: BlockMap,
    grouper: Grouper,
    top: int,
    options: FragmentationOptions,
) -> tuple[MappedSegment, ...]:
    bars, blocks = options.bars, options.blocks
    if not bars and not blocks:
        return ()
    listed = _Blocks(replay, found, grouper) if blocks else None
    rows = []
    for i in found.largest(0 if blocks else top):
        address, stream, pool, small, expandable, _, first, tiles, sums = found.segment(i)
        rows.append(
            MappedSegment(
                address=address,
                pool=pool_of(replay, found, pool),
                stream=stream,
                kind=_kind(small),
                expandable=expandable,
                **map_sums(sums),
                blocks=() if listed is None else listed.of(first, tiles),
                bar=found.bar(i, bars) if bars else "",
            )
        )
    return tuple(rows)


class _Blocks:
    """The blocks of a map; each stack is spelled out once."""

    def __init__(self, replay: Replay, found: BlockMap, grouper: Grouper) -> None:
        from memreplay.engine.query import _blockmap

        self.grouper = grouper
        self.usage = replay.measure("active")
        self.labels: dict[int, str] = {}
        self.carried = _blockmap.CARRIED
        self.states: dict[int, Literal["in_use", "pending", "free"]] = {
            _blockmap.FREE: "free",
            _blockmap.IN_USE: "in_use",
            _blockmap.PENDING: "pending",
        }
        self.columns = [
            memoryview(found.tiles(name))
            for name in ("address", "size", "requested", "state", "stack", "owner")
        ]

    def of(self, first: int, tiles: int) -> tuple[MappedBlock, ...]:
        rows = zip(*(column[first : first + tiles] for column in self.columns), strict=True)
        return tuple(
            MappedBlock(
                address,
                size,
                requested,
                self.states[state],
                self._label(stack, owner) if self.states[state] != "free" else FREE_LABEL,
            )
            for address, size, requested, state, stack, owner in rows
        )

    def _label(self, stack: int, owner: int) -> str:
        name = self.grouper.stack_name(stack, carried=owner >= self.carried)
        if name not in self.labels:
            self.labels[name] = self.grouper.stack_label(self.usage, name)
        return self.labels[name]
