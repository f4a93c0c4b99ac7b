"""Find when each device's segments were reserved and released, and by which code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

import memreplay._core as _core
from memreplay.analysis.code.plumbing import LIBRARY
from memreplay.analysis.groups.grouping import Grouper
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
from memreplay.snapshot.record import inlined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    from memreplay.analysis.groups.reserving import reserved_groups  # imported late: needs NumPy

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
    import numpy as np

    actions = {code: snap.action_name(code) or "" for code in np.unique(changes.action).tolist()}
    pools = {i: snap.pool_id(i) for i in np.unique(changes.pool).tolist()}
    return Changes(
        event_index=changes.event.tolist(),
        time_us=[None if t == _core.ABSENT_TIME else t for t in changes.time_us.tolist()],
        action=[actions[code] for code in changes.action.tolist()],
        address=changes.address.tolist(),
        bytes=changes.bytes.tolist(),
        reserved_bytes=changes.reserved.tolist(),
        stream=changes.stream.tolist(),
        pool=[pools[i] for i in changes.pool.tolist()],
    )


def _groups(
    snap: Snapshot,
    replay: Replay,
    changes: SegmentChanges,
    some: NDArray[np.bool_],
    rank: tuple[bytes, bytes],
) -> tuple[ChangeGroup, ...]:
    """Group changes by the user frame that they're attributed to, most bytes first.

    Changes without a user frame are grouped by stack, because each may come from a different
    operator.
    """
    import numpy as np

    rows = np.flatnonzero(some)
    stacks, which = np.unique(changes.stack[rows], return_inverse=True)
    label = replay.measure().native.label_frame
    frames = [label(stack, *rank) for stack in stacks.tolist()]
    is_user = [
        frame != _core.ABSENT_ID and rank[0][snap.code.frame(frame)[1]] <= LIBRARY
        for frame in frames
    ]
    names = [
        (0, frame) if user else (1, stack)
        for frame, user, stack in zip(frames, is_user, stacks.tolist(), strict=True)
    ]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
    of = np.array([numbers[name] for name in names], dtype=np.int64)[which]
    order = np.argsort(of, kind="stable")
    n_bytes = np.abs(changes.bytes[rows])
    found = []
    for mine in np.split(order, np.cumsum(np.bincount(of, minlength=len(numbers)))[:-1]):
        if not len(mine):  # memory didn't change
            continue
        at = int(which[mine[0]])
        largest = rows[mine[np.argmax(n_bytes[mine])]]
        found.append(
            ChangeGroup(
                bytes=int(n_bytes[mine].sum()),
                count=len(mine),
                least_bytes=int(n_bytes[mine].min()),
                most_bytes=int(n_bytes[mine].max()),
                first_event=int(changes.event[rows[mine[0]]]),
                last_event=int(changes.event[rows[mine[-1]]]),
                frame=None if frames[at] == _core.ABSENT_ID else snap.frame(frames[at]),
                is_user=is_user[at],
                frames=snap.stack(int(changes.stack[largest])),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.first_event)))


def _actions(snap: Snapshot, changes: SegmentChanges) -> dict[str, int]:
    import numpy as np

    codes, counts = np.unique(changes.action, return_counts=True)
    return {
        snap.action_name(int(code)) or "": int(count)
        for code, count in zip(codes, counts, strict=True)
    }


def _largest(
    snap: Snapshot, replay: Replay, changes: SegmentChanges, rank: tuple[bytes, bytes], top: int
) -> tuple[SegmentChange, ...]:
    """Return the largest changes, in trace order."""
    import numpy as np

    rows = np.arange(len(changes))
    if top and top < len(rows):
        by_size = np.argsort(-np.abs(changes.bytes), kind="stable")
        rows = np.sort(by_size[:top])
    label = replay.measure().native.label_frame
    found = []
    for row in rows.tolist():
        stack = int(changes.stack[row])
        frame = label(stack, *rank)
        known = frame != _core.ABSENT_ID
        time = int(changes.time_us[row])
        found.append(
            SegmentChange(
                event_index=int(changes.event[row]),
                time_us=None if time == _core.ABSENT_TIME else time,
                action=snap.action_name(int(changes.action[row])) or "",
                address=int(changes.address[row]),
                bytes=int(changes.bytes[row]),
                reserved_bytes=int(changes.reserved[row]),
                stream=int(changes.stream[row]),
                pool=snap.pool_id(int(changes.pool[row])),
                frame=snap.frame(frame) if known else None,
                is_user=known and rank[0][snap.code.frame(frame)[1]] <= LIBRARY,
                frames=snap.stack(stack),
            )
        )
    return tuple(found)
