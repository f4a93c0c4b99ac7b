"""Annotations paired: from where to where each one goes, in time and in events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay import _core
from memreplay.model import Span

if TYPE_CHECKING:
    from memreplay.replay import Replay
    from memreplay.snapshot import Snapshot


def spans(snap: Snapshot, replay: Replay) -> tuple[Span, ...]:
    """The annotations of a device, in the order in which they begin.

    An END ends the last annotation of its name that is open; one that ends nothing is left out.
    Without times there are none, as nothing says between which events they were.
    """
    if not snap.native.n_annotations or not replay.has_times:
        return ()
    names, stages, devices, times = (
        memoryview(snap.native.rows("annotation", field)).tolist()
        for field in ("name", "stage", "device", "time")
    )
    known: dict[int, str | None] = {}
    # [name, start, end] each, in the order of the file; `open_at` has those without an end yet.
    found: list[tuple[int, int, list[int]]] = []
    open_at: dict[int, list[int]] = {}
    for name, stage, device, time in zip(names, stages, devices, times, strict=True):
        if device != replay.device or time == _core.ABSENT_TIME:
            continue
        if stage not in known:
            known[stage] = snap.text(stage)
        if known[stage] == "START":
            open_at.setdefault(name, []).append(len(found))
            found.append((name, time, []))
        elif known[stage] == "END" and open_at.get(name):
            found[open_at[name].pop()][2].append(time)
    found.sort(key=lambda one: one[1])
    spelled = {name: snap.text(name) or "" for name, _, _ in found}
    return tuple(
        Span(
            name=spelled[name],
            start_us=start,
            end_us=end[0] if end else None,
            start_event=replay.event_at(start - 1),
            end_event=replay.event_at(end[0]) if end else None,
        )
        for name, start, end in found
    )
