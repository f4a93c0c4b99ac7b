"""Determine whether the ring buffer dropped the oldest events: yes, probably or no.

PyTorch keeps a device's last `max_entries` events, but writes neither that number nor the number of
dropped events. memreplay's recorder notes both. For other files, an overflow is inferred from the
data.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import memreplay._core as _core
from memreplay.analysis.annotations.spans import spans

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

Sign = Literal["annotations_before", "recorded_before", "round_count", "same_count", "state_only"]
"""Signs of an overflow:

- `annotations_before`: annotations that always contain events ended before the first event;
- `recorded_before`: most memory that was carried over has a stack, so it was recorded, too. Its
  events were dropped, or recording was stopped and started again;
- `round_count`: the trace has as many events as people pass for `max_entries`;
- `same_count`: it has as many as another device with other work, or as there are annotations;
- `state_only`: one event is left, as with `enabled="state"`.

The counts and `state_only` are signs only if some memory has a stack but no event.
"""

# A loop of 1,000 iterations also produces a round number of events, so a round number only suggests
# an overflow if some recorded memory has no event. The most common limits always suggest an
# overflow.
_USUAL_DIGITS, _LEAST_USUAL = (1, 2, 5), 100_000
_DIGITS, _LEAST = (1, 2, 5), 100
_MORE_DIGITS, _LEAST_OF_MORE = (*range(1, 10), 15, 25, 75), 1000
_LEAST_OF_TWO_DIGITS = 10_000
# With at least this number of events, equal counts are unlikely to be a coincidence.
_LEAST_SAME = 1000
_APART = 0.01  # devices with different work differ by at least this share of their allocations
# Minimum number of annotations without events, if all other annotations with the same name have
# events.
_LEAST_ANNOTATIONS = 2
_OF_BLOCKS = {_core.ACTIONS.index(name) for name in ("alloc", "free_requested", "free_completed")}


def overflowed(snap: Snapshot, device: int | None = None) -> bool | None:
    """Return whether the file says that the ring buffer dropped events; None if it doesn't say.

    memreplay's recorder notes this. Other files may have a flag, which is a scalar or a list (one
    item per device) at the top level or in the settings. If only the buffer's size is known, a
    trace of that length has overflowed.
    """
    flag = snap.kept("overflowed")
    if flag is None:
        flag = snap.settings.get("trace_alloc_overflowed")
    if isinstance(flag, list):
        if device is not None:
            flag = flag[device] if device < len(flag) else None
        else:
            flag = any(flag)
    if flag is not None:
        return bool(flag)
    if any(dropped_events(snap, one) for one in _of(snap, device)):
        return True
    if "max_entries" in snap.recorder:
        limit = snap.recorder["max_entries"]
        if limit is None:
            return False
    else:
        limit = snap.kept("max_entries")
        if limit is None:
            limit = snap.settings.get("trace_alloc_max_entries")
    if limit is None:
        return None
    sizes = limit if isinstance(limit, list) else [limit]
    known = [most for most in sizes if type(most) is int and most > 0]
    if len(known) < len(sizes):
        return None
    full = False
    for at in _of(snap, device):
        if isinstance(limit, list) and at >= len(known):
            return None
        full |= snap.trace_events(at) >= known[at if isinstance(limit, list) else 0]
    return full


def dropped_events(snap: Snapshot, device: int) -> int:
    """Return the minimum number of events that were dropped, as counted by memreplay's recorder; 0
    if unknown.
    """
    noted = snap.recorder.get("dropped_events")
    if not isinstance(noted, list) or not 0 <= device < len(noted):
        return 0
    found = noted[device]
    return found if type(found) is int and found > 0 else 0


def overflow_signs(snap: Snapshot, replay: Replay) -> tuple[Sign, ...]:
    """Return the signs that the ring buffer overflowed, if the file doesn't say whether it did.

    If nothing was reserved when the trace began, it begins with the program, and no events are
    missing.
    """
    if replay.ring_signs is None:
        replay.ring_signs = _signs(snap, replay)
    return replay.ring_signs


def _of(snap: Snapshot, device: int | None) -> tuple[int, ...]:
    return tuple(snap.events_by_device) if device is None else (device,)


def _signs(snap: Snapshot, replay: Replay) -> tuple[Sign, ...]:
    if replay.first_event or snap.truncation is not None or not replay.events:
        return ()
    if overflowed(snap, replay.device) is not None:
        return ()
    events = snap.trace_events(replay.device)
    found: list[Sign] = []
    if events == 1 and _is_left_of_state(replay):
        found.append("state_only")
    if _is_typed(events):
        found.append("round_count")
    if _is_same(snap, replay, events):
        found.append("same_count")
    if found and not _is_usual(events) and not _has_missing(replay):
        found.clear()
    if _annotations_before(snap, replay) >= _LEAST_ANNOTATIONS:
        found.append("annotations_before")
    if not _begins_with_memory(replay):
        return ()
    if not found and _recorded_before(replay):
        found.append("recorded_before")
    return tuple(found)


def _begins_with_memory(replay: Replay) -> bool:
    return replay.carried_over_bytes > 0 or replay.measure("reserved").start_bytes > 0


def _digits(number: int) -> int:
    """Return the number without trailing zeros."""
    while number and number % 10 == 0:
        number //= 10
    return number


def _is_usual(events: int) -> bool:
    return events >= _LEAST_USUAL and _digits(events) in _USUAL_DIGITS


def _is_typed(events: int) -> bool:
    digits = _digits(events)
    return (
        (events >= _LEAST and (digits in _DIGITS or events & (events - 1) == 0))
        or (events >= _LEAST_OF_MORE and digits in _MORE_DIGITS)
        or (events >= _LEAST_OF_TWO_DIGITS and digits <= 99)
    )


def _has_missing(replay: Replay) -> bool:
    """Return whether some recorded memory has no event.

    A block or segment has a stack if it was allocated during a recording. This can have been an
    earlier recording, so it doesn't prove that events were dropped.
    """
    found = replay.unexplained
    return found.recorded_blocks + found.recorded_segments > 0


def _recorded_before(replay: Replay) -> bool:
    """Return whether most carried-over blocks have a stack, or segments if there are no blocks.

    Libraries' workspaces have a stack even if recording began later, so a few blocks with stacks
    aren't enough.
    """
    found = replay.unexplained
    if found.blocks:
        return found.recorded_blocks * 2 > found.blocks
    # If the range ends early, later events may have allocated these segments.
    return replay.reaches_end and found.recorded_segments * 2 > found.segments


def _is_left_of_state(replay: Replay) -> bool:
    """Return whether the only event is an alloc or free, rather than a marker, such as from an
    earlier dump.
    """
    return bool(set(replay.tally.actions) & _OF_BLOCKS)


def _is_same(snap: Snapshot, replay: Replay, events: int) -> bool:
    if events < _LEAST_SAME:
        return False
    if snap.annotation_count == events:
        return True
    counts = snap.events_by_device
    for device, others in counts.items():
        if device == replay.device or others != events or snap.only not in (None, device):
            continue
        # Devices that do the same work have the same number of events.
        allocations = snap.replay(device).allocations, replay.allocations
        if abs(allocations[0] - allocations[1]) > _APART * max(allocations):
            return True
    return False


def _annotations_before(snap: Snapshot, replay: Replay) -> int:
    """Count the annotations that ended before the first event, if all later annotations of the same
    name have events.
    """
    first = replay.time_us(0)
    if not snap.annotation_count or first is None:
        return 0
    (times,) = snap.annotation_rows("time")
    if min(times) >= first:
        return 0
    before: Counter[str] = Counter()
    inside: dict[str, bool] = {}
    for span in spans(snap, replay):
        if span.end_event is None:
            continue
        name = span.name.partition("#")[0]
        if span.end_event < 0:
            before[name] += 1
        elif span.start_event >= 0:
            inside[name] = inside.get(name, True) and span.end_event > span.start_event
    return sum(n for name, n in before.items() if inside.get(name))
