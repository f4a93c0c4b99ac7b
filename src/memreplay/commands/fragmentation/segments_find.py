"""Find when each device's segments were reserved and released, and by which code."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import UNSET

import memreplay._core as _core
from memreplay.analysis.code.plumbing import LIBRARY
from memreplay.analysis.groups.grouping import Grouper
from memreplay.analysis.groups.reserving import reserved_groups
from memreplay.analysis.selecting.answering import takes
from memreplay.analysis.selecting.choice import chosen_devices
from memreplay.analysis.selecting.selection import OF_ALLOCATIONS, Selection
from memreplay.analysis.trust.facts import device_facts
from memreplay.analysis.trust.trust import verdict
from memreplay.commands.fragmentation.segments_result import (
    ChangeGroup,
    Changes,
    DeviceSegments,
    SegmentChange,
    SegmentsReport,
)
from memreplay.engine.query._vectors import vector
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.model import SegmentChanges
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot


@takes(selection=Selection, without=("by", "rules", "fold", *OF_ALLOCATIONS))
def segments_report(snap: Snapshot, selection: Selection) -> SegmentsReport:
    """Report on every selected device.

    `top`: number of largest changes (0: all). With `strict`, all of a device's checks are made, as
    for a summary.
    """
    grouper = Grouper(snap, "line")
    return SegmentsReport(
        file=snap.file,
        truncated=snap.truncation is not None,
        unknown_devices=snap.unknown_devices or UNSET,
        devices=tuple(
            _device(snap, snap.replay(device), grouper, selection.top, selection.strict)
            for device in chosen_devices(snap, selection)
        ),
    )


def _device(
    snap: Snapshot, replay: Replay, grouper: Grouper, top: int, strict: bool
) -> DeviceSegments:
    usage = replay.measure("reserved")
    changes = replay.segment_changes
    rank = grouper.file_rank, grouper.function_rank
    trust = verdict(snap, usage, strict=strict)
    return DeviceSegments(
        **inlined(DeviceSegments, device_facts(snap, replay, trust)),
        start_segments=len(replay.reserved.regions()),
        start_bytes=usage.start_bytes,
        peak_bytes=usage.peak.bytes,
        peak_event=usage.peak.event_index,
        end_bytes=usage.end_bytes,
        actions=_actions(snap, changes),
        at_peak=reserved_groups(grouper.dimensions, "line", usage, usage.peak.event_index, 0)[0],
        reserved_by=_groups(snap, replay, changes, changes.bytes > 0, rank),
        released_by=_groups(snap, replay, changes, changes.bytes < 0, rank),
        changes=_changes(snap, changes),
        largest=_largest(snap, replay, changes, rank, top),
    )


def _changes(snap: Snapshot, changes: SegmentChanges) -> Changes:
    """Return all changes with names and pools; None for unknown values."""
    actions = {code: snap.action_name(code) or "" for code in changes.action.distinct()}
    pools = {i: snap.pool_id(i) for i in changes.pool.distinct()}
    return Changes(
        event_index=changes.event.tolist(),
        time_us=[None if t == _core.ABSENT_TIME else t for t in changes.time_us],
        action=[actions[code] for code in changes.action],
        address=changes.address.tolist(),
        bytes=changes.bytes.tolist(),
        reserved_bytes=changes.reserved.tolist(),
        stream=changes.stream.tolist(),
        pool=[pools[i] for i in changes.pool],
    )


def _groups(
    snap: Snapshot,
    replay: Replay,
    changes: SegmentChanges,
    some: Vector,
    rank: tuple[bytes, bytes],
) -> tuple[ChangeGroup, ...]:
    """Group changes by the user frame that they're attributed to, most bytes first.

    Changes without a user frame are grouped by stack, because each may come from a different
    operator.
    """
    rows = some.rows()
    stacks, which = changes.stack[rows].numbered()
    label = replay.measure().native.label_frame
    frames = [label(stack, *rank) for stack in stacks]
    is_user = [
        frame != _core.ABSENT_ID and rank[0][snap.code.frame(frame)[1]] <= LIBRARY
        for frame in frames
    ]
    names = [
        (0, frame) if user else (1, stack)
        for frame, user, stack in zip(frames, is_user, stacks, strict=True)
    ]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
    of = vector([numbers[name] for name in names])[which]
    order, n_bytes = of.order(), abs(changes.bytes[rows])
    found = []
    for first, end in pairwise([0, *of.counts().sums()]):
        mine = order[first:end]
        at = which[mine[0]]
        largest = rows[mine[n_bytes[mine].argmax()]]
        found.append(
            ChangeGroup(
                bytes=n_bytes[mine].sum(),
                count=len(mine),
                least_bytes=n_bytes[mine].min(),
                most_bytes=n_bytes[mine].max(),
                first_event=changes.event[rows[mine[0]]],
                last_event=changes.event[rows[mine[-1]]],
                frame=None if frames[at] == _core.ABSENT_ID else snap.frame(frames[at]),
                is_user=is_user[at],
                frames=snap.stack(changes.stack[largest]),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.first_event)))


def _actions(snap: Snapshot, changes: SegmentChanges) -> dict[str, int]:
    codes, places = changes.action.numbered()
    return {
        snap.action_name(code) or "": count
        for code, count in zip(codes, places.counts(), strict=True)
    }


def _largest(
    snap: Snapshot, replay: Replay, changes: SegmentChanges, rank: tuple[bytes, bytes], top: int
) -> tuple[SegmentChange, ...]:
    """Return the largest changes, in trace order."""
    rows: Iterable[int] = range(len(changes))
    if top and top < len(changes):
        rows = (-abs(changes.bytes)).order()[:top].sorted()
    label = replay.measure().native.label_frame
    found = []
    for row in rows:
        stack = changes.stack[row]
        frame = label(stack, *rank)
        known = frame != _core.ABSENT_ID
        time = changes.time_us[row]
        found.append(
            SegmentChange(
                event_index=changes.event[row],
                time_us=None if time == _core.ABSENT_TIME else time,
                action=snap.action_name(changes.action[row]) or "",
                address=changes.address[row],
                bytes=changes.bytes[row],
                reserved_bytes=changes.reserved[row],
                stream=changes.stream[row],
                pool=snap.pool_id(changes.pool[row]),
                frame=snap.frame(frame) if known else None,
                is_user=known and rank[0][snap.code.frame(frame)[1]] <= LIBRARY,
                frames=snap.stack(stack),
            )
        )
    return tuple(found)
