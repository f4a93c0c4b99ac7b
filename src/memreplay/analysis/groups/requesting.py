"""Find the code that requested memory at an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.snapshot.model import Coded, Frame

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Usage


class Asker(Coded, frozen=True, kw_only=True):
    """The code that requested memory."""

    frames: tuple[Frame, ...] = ()
    """The full stack, innermost frame first; empty if none was recorded."""


def requester_of(grouper: Grouper, usage: Usage, event: int) -> Asker:
    """Return an event's call site. `grouper` names its stack."""
    return requester_of_stack(grouper, usage, usage.replay.value("stack", event))


def requester_of_stack(grouper: Grouper, usage: Usage, stack: int) -> Asker:
    """Return the call site for a stack's number in the trace."""
    name = grouper.stack_name(stack, carried=False)
    label = grouper.dimensions.label(usage, "stack", name)
    return Asker(label=label.text, user=label.user, libraries=label.libraries, frames=label.frames)
