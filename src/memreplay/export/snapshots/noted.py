"""Cut memreplay's recorded notes down to a slice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memreplay.engine.write._slicing import Excerpt
    from memreplay.snapshot.recorded import Recorded
    from memreplay.snapshot.snapshot import Snapshot


def noted_of(snap: Snapshot, excerpts: list[Excerpt], *, frames: bool = True) -> dict[str, object]:
    """Return the value of memreplay's key for a slice.

    It only covers the slice's allocations and steps. Without `frames`, source lines are dropped.
    """
    own = dict(snap.recorder)
    if not frames:
        own.pop("source_lines", None)
    # The reader infers the backend from blocks and stacks, but a slice may have neither.
    if not snap.backend.is_cuda:
        own["backend"] = snap.backend.name
    noted = own.pop("allocations", None)
    steps = own.pop("steps", None)
    by_device = {excerpt.holding.replay.device: excerpt for excerpt in excerpts}
    places = range(1 + max(by_device, default=-1))
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
    import numpy as np

    from memreplay.snapshot.recorded import UNKNOWN  # imported late: loads NumPy

    columns = [np.empty(0, "u4") for _ in places]
    addresses, of_addresses = [np.empty(0, "u8")], [np.empty(0, "u4")]
    for device, excerpt in by_device.items():
        replay = snap.replay(device)
        carried = np.asarray(replay.carried("address"))
        of_carried = recorded.of_carried(replay)
        known = dict(zip(carried.tolist(), of_carried.tolist(), strict=True))
        leading = excerpt.leading_addresses()
        kept = np.asarray(excerpt.kept()).astype(bool)
        if device in places:
            of_leading = np.array([known.get(address, UNKNOWN) for address in leading], "u4")
            columns[device] = np.concatenate([of_leading, recorded.of_events(replay)[kept]])
        before = (of_carried != UNKNOWN) & ~np.isin(carried, np.array(leading, "u8"))
        addresses.append(carried[before])
        of_addresses.append(of_carried[before])
    return recorded.renoted(columns, np.concatenate(addresses), np.concatenate(of_addresses))


def _steps(steps: object, excerpt: Excerpt) -> list[int]:
    """Return each step's position, counted in written events."""
    import numpy as np

    replay = excerpt.holding.replay
    kept = np.concatenate([[0], np.cumsum(np.asarray(excerpt.kept()))])
    given: list[Any] = steps if isinstance(steps, list) else []
    return [
        excerpt.leading + int(kept[step - replay.base])
        for step in given
        if isinstance(step, int) and replay.base <= step <= replay.base + replay.events
    ]
