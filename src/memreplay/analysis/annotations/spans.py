"""Pair the starts and ends of annotations, and locate them by time and event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import memreplay._core as _core
from memreplay.snapshot.model import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot


def spans(snap: Snapshot, replay: Replay, only: str | None = None) -> tuple[Span, ...]:
    """Return a device's annotations (if `only` is given, those with that name), ordered by start.

    An END closes the latest open annotation of its name; unmatched ones are ignored. If an END has
    an earlier time than its START, the annotation ends where it starts, because event times are
    running maxima. For a file without times, the result is empty, because the position of
    annotations among the events is unknown.
    """
    if replay.spans is None:
        found = _paired(snap, replay, only)
        if only is None:
            replay.spans = found
        return found
    return replay.spans if only is None else tuple(s for s in replay.spans if s.name == only)


def open_at(every: Sequence[Span], event: int) -> tuple[str, ...]:
    """Return the names of annotations open after an event, outermost first."""
    return tuple(
        span.name
        for span in every
        if span.start_event < event and (span.end_event is None or event <= span.end_event)
    )


def _paired(snap: Snapshot, replay: Replay, only: str | None) -> tuple[Span, ...]:
    """Pair the file's rows of starts and ends into annotations."""
    if not snap.annotation_count or not replay.has_times:
        return ()
    names, stages, devices, times = snap.annotation_rows("name", "stage", "device", "time")
    rows: Sequence[int] = range(len(names))
    if only is not None:
        # A file can have millions of annotations with other names, so don't create Python objects
        # for those.
        called = {name for name in set(names) if snap.text(name) == only}
        rows = [row for row, name in enumerate(names) if name in called] if called else ()
    known: dict[int, str | None] = {}
    # [name, start, end] of each span, in file order. `open_at` has the indices of spans that
    # haven't ended yet, by name.
    found: list[tuple[int, int, list[int]]] = []
    open_at: dict[int, list[int]] = {}
    for row in rows:
        name, stage, time = names[row], stages[row], times[row]
        if devices[row] != replay.device or time == _core.ABSENT_TIME:
            continue
        if stage not in known:
            known[stage] = snap.text(stage)
        if known[stage] == "START":
            open_at.setdefault(name, []).append(len(found))
            found.append((name, time, []))
        elif known[stage] == "END" and open_at.get(name):
            _, start, end = found[open_at[name].pop()]
            end.append(max(start, time))
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
