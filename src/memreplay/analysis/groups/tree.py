"""Records of a call tree, in the results of `peak` and `at`."""

from __future__ import annotations

from memreplay.snapshot.model import Frame
from memreplay.snapshot.record import Record


class Call(Record, frozen=True, kw_only=True):
    """A call, together with the chain of calls below it that have only one callee. In an inverted
    tree, the chain goes to callers.
    """

    level: int
    """Depth: 1 for the outermost frame, or the innermost in an inverted tree."""
    label: str
    """Name of its innermost frame; in parentheses without a stack."""
    bytes: int
    """Bytes of all stacks that contain this call."""
    count: int
    """Number of allocations."""
    share: float
    """`bytes` as a share of the live set, 0.0 to 1.0."""
    own_bytes: int
    """Bytes allocated by its last frame itself; in an inverted tree, bytes of stacks that have no
    further callers.
    """
    own_count: int
    """Number of the allocations in `own_bytes`."""
    hidden: int
    """Number of omitted calls directly below it."""
    hidden_bytes: int
    """Bytes of the omitted calls."""
    frames: tuple[Frame, ...]
    """The chain's frames, outermost first, or innermost first in an inverted tree; empty without a
    stack.
    """


class CallTree(Record, frozen=True):
    """A live set's calls, depth first; calls with the same caller are ordered largest first."""

    hidden_bytes: int
    """Bytes of omitted calls at level 1."""
    calls: tuple[Call, ...]
    """The calls shown."""
    inverted: bool = False
    """Whether calls go from the innermost frame to its callers (`--inverted`)."""
