"""Moments of a device that mean something: failed requests, snapshots, steps."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.steps.boundaries import find_steps
from memreplay.export.page.records import PageMark
from memreplay.render.units import count, counted, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

MOST = 10_000  # of one kind: nobody sees more, and a file may have one an event


class Marks(NamedTuple):
    """The marks of a device, each kind in its order, `MOST` at most."""

    found: tuple[PageMark, ...]
    notes: tuple[str, ...]
    """What that leaves out."""


def marks(snap: Snapshot, replay: Replay) -> Marks:
    """All marks of a device."""
    found: list[PageMark] = []
    notes = []
    for name, kind in (
        ("failed request", _ooms(replay)),
        ("snapshot", _snapshots(replay)),
        ("step", _steps(snap, replay)),
    ):
        found += islice(kind, MOST)
        if more := sum(1 for _ in kind):
            notes.append(
                f"device {replay.device}: the first {counted(MOST, name)} are marked, and"
                f" {count(more)} more are not"
            )
    return Marks(tuple(found), tuple(notes))


def _ooms(replay: Replay) -> Iterator[PageMark]:
    for event in replay.events_of("oom"):
        yield PageMark(
            kind="oom",
            text=f"out of memory: {size(replay.request_of(event)[0])} failed",
            moment=event - replay.first_event + 1,
            end=None,
        )


def _snapshots(replay: Replay) -> Iterator[PageMark]:
    for event in replay.events_of("snapshot"):
        moment = event - replay.first_event + 1
        yield PageMark(kind="snapshot", text="snapshot", moment=moment, end=None)


def _steps(snap: Snapshot, replay: Replay) -> Iterator[PageMark]:
    """As `memreplay steps` finds them; none where all that was read would be one."""
    found = find_steps(snap, replay.measure("requested"))
    if found.source is None or found.source.kind == "whole":
        return
    for number, one in enumerate(found.pieces, 1):
        yield PageMark(
            kind="step",
            text=f"step {count(number)}" + (f" ({clean(one.name)})" if one.name else ""),
            moment=one.first,
            end=one.stop,
        )
