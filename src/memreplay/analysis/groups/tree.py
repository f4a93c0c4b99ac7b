"""A live set as a tree of calls: part of the results of `peak` and `at`."""

from __future__ import annotations

from memreplay.snapshot.model import Frame
from memreplay.snapshot.record import Record


class Call(Record, frozen=True):
    """A call, with those that it leads to as long as that is one alone.

    `frames` are these, the outermost first; empty for what has no stack, which `label` names. All
    stacks that go through them hold `bytes` in `count` allocations, `share` of the live set; of
    these the last frame itself allocated `own_bytes` in `own_count`. `level` is 1 for the
    outermost. Of the calls below, `hidden` have no line of their own, and hold `hidden_bytes`.
    """

    level: int
    label: str
    frames: tuple[Frame, ...]
    bytes: int
    count: int
    share: float
    own_bytes: int
    own_count: int
    hidden: int
    hidden_bytes: int


class CallTree(Record, frozen=True):
    """The calls depth first, the largest first; what the outermost leave of the live set is in
    `hidden_bytes`."""

    calls: tuple[Call, ...]
    hidden_bytes: int
