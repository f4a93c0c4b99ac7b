"""Mark a device's notable moments: failed requests, snapshots, steps."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.steps.boundaries import find_steps
from memreplay.export.page.coding import MOST as LARGEST
from memreplay.export.page.records import PageMark
from memreplay.render.units import count, counted, size
from memreplay.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

# Maximum number of marks per kind; a file may have one per event, but a screen can't show more.
MOST = 10_000


class Marks(NamedTuple):
    """A device's marks in order, at most `MOST` per kind."""

    found: tuple[PageMark, ...]
    notes: tuple[str, ...]
    """Notes about omitted marks."""


def marks(snap: Snapshot, replay: Replay) -> Marks:
    """Return all of a device's marks."""
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
                f"device {replay.device}: the first {counted(MOST, name)} are marked; {count(more)}"
                " more aren't"
            )
    return Marks(tuple(found), tuple(notes))


def _ooms(replay: Replay) -> Iterator[PageMark]:
    for event in replay.events_of("oom"):
        request = replay.request_of(event)[0]
        yield PageMark(
            kind="oom",
            text=f"out of memory: {size(request)} failed",
            bytes=_exact(request),
            moment=event - replay.first_event + 1,
            end=None,
        )


def _snapshots(replay: Replay) -> Iterator[PageMark]:
    for event in replay.events_of("snapshot"):
        yield PageMark(
            kind="snapshot",
            text="snapshot",
            bytes=_exact(replay.value("size", event)),
            moment=event - replay.first_event + 1,
            end=None,
        )


def _exact(number: int) -> int | None:
    """Return None for a number that JavaScript can't hold; files may have any."""
    return number if abs(number) <= LARGEST else None


def _steps(snap: Snapshot, replay: Replay) -> Iterator[PageMark]:
    """Yield the steps that `memreplay steps` finds, unless the whole recording is one step."""
    found = find_steps(snap, replay.measure("requested"))
    if found.source is None or found.source.is_whole:
        return
    for number, one in enumerate(found.pieces, 1):
        yield PageMark(
            kind="step",
            text=f"step {count(number)}" + (f" ({clean(one.name)})" if one.name else ""),
            bytes=None,
            moment=one.first,
            end=one.stop,
        )
