"""A live set as a tree of calls: part of the results of `peak` and `at`."""

from __future__ import annotations

from memreplay.snapshot.model import Frame
from memreplay.snapshot.record import Record


class Call(Record, frozen=True, kw_only=True):
    """A call, with those that it leads to as long as that is one alone; in an inverted tree a call
    leads to its callers."""

    level: int
    """How deep it is: 1 for the outermost, or in an inverted tree for what allocates."""
    label: str
    """What it is called, by its innermost frame; in parentheses if there is no stack."""
    bytes: int
    """What all stacks that go through it hold."""
    count: int
    """In how many allocations."""
    share: float
    """`bytes` as a share of the live set, 0.0 to 1.0."""
    own_bytes: int
    """What its last frame itself allocated; in an inverted tree what has no caller beyond it."""
    own_count: int
    """In how many allocations."""
    hidden: int
    """How many of the calls below it are left out."""
    hidden_bytes: int
    """What these hold."""
    frames: tuple[Frame, ...]
    """These calls, the outermost first, or in an inverted tree the innermost; none if there is no
    stack."""


class CallTree(Record, frozen=True):
    """The calls of a live set: depth first, the largest first."""

    hidden_bytes: int
    """What the calls of level 1 that are left out hold."""
    calls: tuple[Call, ...]
    """The calls that are shown."""
    inverted: bool = False
    """With `--inverted`: calls go from what allocates outward to its callers, not from the
    outermost inward."""
