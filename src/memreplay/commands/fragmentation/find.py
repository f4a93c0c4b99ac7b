"""Compute reserved but unused memory: how much there was over time, where it is at one moment, and
what blocks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.mapped import blockers_of, map_sums, map_verdict, pool_of
from memreplay.analysis.groups.records import Kind
from memreplay.analysis.moments.moments import resolve
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_devices, no_reserved
from memreplay.analysis.selecting.selection import OF_ALLOCATIONS, At, Selection
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import NOT_RECORDED, verdict
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

PEAKS = 3  # number of peaks of active memory to report
FREE_LABEL = ""


class FragmentationOptions(Options, frozen=True):
    """Options for the moment of the block map, and how much to show of its segments."""

    at: At = None
    """None for the first failed request or, without one, the peak of reserved or active memory."""
    bars: int = 0
    """Width of a segment's bar; 0 for no map."""
    blocks: bool = False
    """Whether all segments include their blocks."""


@takes(selection=Selection, options=FragmentationOptions, without=OF_ALLOCATIONS)
def fragmentation_report(
    snap: Snapshot, selection: Selection, options: FragmentationOptions
) -> FragmentationReport:
    """Report on every selected device. `at`: moment of the block map; by default, the first failed
    request or else a peak. Peaks are those of active memory.

    `top` limits the groups that block memory (0: all), and the segments if `bars` is set. With
    `blocks`, all segments are included with their blocks. A device without the moment is left out,
    and `missing` says why. Raises UsageError if no device has it.

    With `fold`, stacks that differ only in plumbing frames are merged.
    """
    at = options.at
    by = selection.by or "stack"
    grouper = Grouper(snap, by, selection.rules, fold=selection.fold)
    found: list[DeviceFragmentation] = []
    missing: list[UsageError] = []
    for device in chosen_devices(snap, selection):
        replay = snap.replay(device)
        if not replay.shows_reserved:
            missing.append(no_reserved(replay.backend.name))
            continue
        points, mean = _course(replay)
        moment, event = _telling(replay, points)
        if NOT_RECORDED.intersection(verdict(snap, replay.measure("reserved")).reasons):
            moment, event = "end", replay.start + replay.events
        if at is not None:
            moment = "asked"
            try:
                event = resolve(snap, replay.measure("active"), at)
            except UsageError as error:
                missing.append(error)
                continue
        block_map = replay.block_map(event)
        trust = map_verdict(snap, replay, strict=selection.strict)
        found.append(
            DeviceFragmentation(
                **inlined(DeviceFragmentation, device_facts(snap, replay, trust)),
                moments=points,
                unused_bytes=unused_bytes(replay),
                mean_unused_bytes=mean,
                moment_kind=moment,
                event_index=event,
                time_us=replay.time_us(event),
                **_at_moment(replay, block_map, grouper, selection.top),
                map=_map(replay, block_map, grouper, selection.top, options),
                map_total=block_map.n_segments,
            )
        )
    if missing and not found:
        raise missing[0]
    return FragmentationReport(
        file=snap.file,
        by=by,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        missing=tuple(dict.fromkeys(map(str, missing))),
        devices=tuple(found),
        asked=at is not None,
    )


def _at_moment(replay: Replay, found: BlockMap, grouper: Grouper, top: int) -> dict[str, Any]:
    """Return where free memory is at the map's moment, and what blocks it."""
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
    """Return moments that show how reserved and active memory diverged, and their mean difference
    over time.
    """
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
    # Compute the mean from the series, because `unused` excludes memory that was mapped just before
    # it was used.
    whole, used = (
        _measures.extremes(one.column, one.start_bytes, replay.times)[5]
        for one in (reserved, active)
    )
    return tuple(points), None if whole is None or used is None else round(whole - used)


def _telling(replay: Replay, points: tuple[UnusedPoint, ...]) -> tuple[Moment, int]:
    """Return the moment when unused memory matters most, and the reason.

    This is the first failed request or, without one, the peak of reserved memory. If the memory at
    that peak was cached before the recording and never needed, use the peak of active memory.
    """
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
    """Formats a map's blocks. Each stack is formatted only once."""

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
