"""Describe the failed request at the cursor, in the words of `memreplay oom`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from memreplay.analysis.groups.requesting import requester_of
from memreplay.explore.rows.row import Tone, named
from memreplay.render.fit import fit_place, wrap
from memreplay.render.units import count, size

if TYPE_CHECKING:
    from memreplay.commands.oom.result import Oom
    from memreplay.explore.explored import Explored
    from memreplay.explore.look import Look
    from memreplay.render.document import Place

LEAST_PLACE = 20  # narrower locations get a line of their own


class Failed(NamedTuple):
    """A failed request: its number from 1, how many failed, its size and its code."""

    number: int
    of: int
    bytes: int
    place: Place


def failed_at(explored: Explored, look: Look) -> Failed | None:
    """Return the request that failed at the cursor, if one did."""
    events = explored.marks(look).ooms
    if look.event not in events:
        return None
    replay = explored.replay(look)
    asked = requester_of(
        explored.grouper("stack", fold=False), replay.measure("active"), look.event
    )
    request = replay.value("size", look.event)
    return Failed(events.index(look.event) + 1, len(events), request, named(asked)[0])


def explained(explored: Explored, look: Look, number: int) -> Oom:
    """Return the analysis of `memreplay oom`, which simulates settings and therefore takes longer
    than a key press.
    """
    from memreplay.analysis.selecting.selection import Selection
    from memreplay.commands.oom.find import OomOptions, oom_report

    selection = Selection(device=look.device, top=1, rules=explored.rules)
    report = oom_report(explored.snap, selection, OomOptions(oom=number, most=1))
    return next(one for one in report.devices[0].ooms if one.number == number)


def failed_lines(failed: Failed, oom: Oom | None, width: int) -> list[tuple[str, Tone]]:
    """Return the lines to show; `oom` is None until the analysis is done."""
    width = max(width, LEAST_PLACE)
    which = f" ({count(failed.number)} of {count(failed.of)})" if failed.of > 1 else ""
    words = f"! {size(failed.bytes)} request failed{which} at "
    room = width - len(words)
    if room >= LEAST_PLACE:
        lines: list[tuple[str, Tone]] = [(words + fit_place(failed.place, room), "oom")]
    else:
        lines = [(words.rstrip(), "oom"), ("  " + fit_place(failed.place, width - 2), "oom")]
    said = ["working out why …"] if oom is None else _verdict(oom)
    return lines + [(f"  {line}", "plain") for one in said for line in wrap(one, width - 2)]


def _verdict(oom: Oom) -> list[str]:
    """Return why a request failed, and what would have helped."""
    from memreplay.commands.oom.text import cause_text, remedy_text, remedy_title

    remedies = [f"{remedy_title(one.name)}: {remedy_text(one, oom)}" for one in oom.remedies]
    return [cause_text(oom), *remedies]
