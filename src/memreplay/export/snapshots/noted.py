"""Cut memreplay's recorded notes down to a slice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memreplay.engine.query._vectors import joined, vector

if TYPE_CHECKING:
    from memreplay.engine.write._slicing import Excerpt
    from memreplay.snapshot.recorded import Recorded
    from memreplay.snapshot.snapshot import Snapshot


def noted_of(snap: Snapshot, excerpts: list[Excerpt], *, frames: bool = True) -> dict[str, object]:
    """Return the value of memreplay's key for a slice.

    It only covers the slice's allocations and steps. Without `frames`, source lines and the holders
    of memory are dropped, because they also name code.
    """
    own = dict(snap.recorder)
    if not frames:
        own.pop("source_lines", None)
        own.pop("holders", None)
    # The reader infers the backend from blocks and stacks, but a slice may have neither.
    if not snap.backend.is_cuda:
        own["backend"] = snap.backend.name
    noted = own.pop("allocations", None)
    steps = own.pop("steps", None)
    by_device = {excerpt.holding.replay.device: excerpt for excerpt in excerpts}
    places = range(1 + max(by_device, default=-1))
    holders = own.pop("holders", None)
    if isinstance(holders, dict) and (moved := _holders(holders, by_device, places)):
        own["holders"] = moved
    if snap.recorded is not None and isinstance(noted, dict):
        own["allocations"] = {
            **noted,
            **_allocations(snap.recorded, snap, by_device, places),
        }
    if isinstance(steps, list):
        own["steps"] = [
            _steps(steps[device], by_device[device])
            if device < len(steps) and device in by_device
            else []
            for device in places
        ]
    return own


def _allocations(
    recorded: Recorded, snap: Snapshot, by_device: dict[int, Excerpt], places: range
) -> dict[str, object]:
    """Return the kinds and modules of the written allocations."""
    from memreplay.snapshot.recorded import UNKNOWN

    columns = [vector([], "I") for _ in places]
    addresses, of_addresses = [], []
    for device, excerpt in by_device.items():
        replay = snap.replay(device)
        carried = vector(replay.carried("address"))
        of_carried = recorded.of_carried(replay)
        known = dict(zip(carried, of_carried, strict=True))
        leading = excerpt.leading_addresses()
        kept = vector(excerpt.kept()) != 0
        if device in places:
            of_leading = vector([known.get(address, UNKNOWN) for address in leading], "I")
            columns[device] = joined([of_leading, recorded.of_events(replay)[kept]], "I")
        before = (of_carried != UNKNOWN) & ~carried.is_in(vector(leading, "Q"))
        addresses.append(carried[before])
        of_addresses.append(of_carried[before])
    return recorded.renoted(columns, joined(addresses, "Q"), joined(of_addresses, "I"))


def _holders(
    holders: dict[str, object], by_device: dict[int, Excerpt], places: range
) -> dict[str, object] | None:
    """Return the holders of memory; None if the slice doesn't have the moment of the look."""
    events = holders.get("events")
    if events is None:  # at the end
        whole = all(one.holding.replay.reaches_end for one in by_device.values())
        return holders if whole else None
    if not isinstance(events, list) or len(events) < len(places):
        return None
    moved = [_steps([events[at]], by_device[at]) if at in by_device else [0] for at in places]
    return {**holders, "events": [at for (at,) in moved]} if all(moved) else None


def _steps(steps: object, excerpt: Excerpt) -> list[int]:
    """Return each step's position, counted in written events."""
    replay = excerpt.holding.replay
    kept = joined([[0], vector(excerpt.kept()).sums()])
    given: list[Any] = steps if isinstance(steps, list) else []
    return [
        excerpt.leading + kept[step - replay.base]
        for step in given
        if isinstance(step, int) and replay.base <= step <= replay.base + replay.events
    ]
