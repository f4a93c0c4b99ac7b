"""Which code asked for memory at an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memreplay.snapshot.model import Coded, Frame

if TYPE_CHECKING:
    from memreplay.analysis.groups.grouping import Grouper
    from memreplay.snapshot.replay import Usage


class Asker(Coded, frozen=True, kw_only=True):
    """The code that asked for memory."""

    frames: tuple[Frame, ...] = ()
    """The whole stack, innermost first; none if none was recorded."""


def asker_of(grouper: Grouper, usage: Usage, event: int) -> Asker:
    """The code of an event's stack, as `grouper` names stacks."""
    return coder_of(grouper, usage, usage.replay.value("stack", event))


def coder_of(grouper: Grouper, usage: Usage, stack: int) -> Asker:
    """The code of a stack of the trace, by its number."""
    name = grouper.stack_name(stack, carried=False)
    label = grouper.dimensions.label(usage, "stack", name)
    return Asker(label=label.text, user=label.user, libraries=label.libraries, frames=label.frames)
