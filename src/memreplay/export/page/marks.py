"""Moments of a device that mean something: failed requests, snapshots, steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.analysis.steps.boundaries import find_steps
from memreplay.export.page.records import PageMark
from memreplay.render.fit import clean
from memreplay.render.units import count, size

if TYPE_CHECKING:
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

MOST = 10_000  # of one kind: nobody sees more, and a file may have one an event


def marks(snap: Snapshot, replay: Replay) -> tuple[PageMark, ...]:
    """All of them, each kind in its order, `MOST` at most."""
    first = replay.first_event
    ooms = [
        PageMark(
            kind="oom",
            text=f"out of memory: {size(replay.request_of(event)[0])} failed",
            moment=event - first + 1,
            end=None,
        )
        for event in replay.events_of("oom")[:MOST]
    ]
    snapshots = [
        PageMark(kind="snapshot", text="snapshot", moment=event - first + 1, end=None)
        for event in replay.events_of("snapshot")[:MOST]
    ]
    return (*ooms, *snapshots, *_steps(snap, replay))


def _steps(snap: Snapshot, replay: Replay) -> list[PageMark]:
    """As `memreplay steps` finds them; none where all that was read would be one."""
    found = find_steps(snap, replay.measure("requested"))
    if found.source is None or found.source.kind == "whole":
        return []
    return [
        PageMark(
            kind="step",
            text=f"step {count(number)}" + (f" ({clean(one.name)})" if one.name else ""),
            moment=one.first,
            end=one.stop,
        )
        for number, one in enumerate(found.pieces, 1)
    ]
