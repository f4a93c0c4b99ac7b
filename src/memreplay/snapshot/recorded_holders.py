"""Validate the notes on the holders of memory, because the file is untrusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, ValidationError, convert

from memreplay.snapshot.record import Record

if TYPE_CHECKING:
    from memreplay.snapshot.snapshot import Snapshot

Text = Annotated[str, Meta(max_length=4096)]
Bytes = Annotated[int, Meta(ge=0, lt=2**62)]
HeldByKind = Literal[
    "variable",
    "parameters",
    "gradients",
    "optimizer state",
    "exception",
    "cycle",
    "unknown",
]


class HeldBy(Record, frozen=True):
    """Allocations that the same Python object keeps alive."""

    kind: HeldByKind
    """`variable`: of a function or module. `parameters`, `gradients`: of a model. `optimizer
    state`. `exception`: a traceback, whose frames keep their variables. `cycle`: objects that only
    refer to each other, which the garbage collector would free. `unknown`: held by C++ code, or not
    found in time.
    """
    name: Text
    """The way from the variable to the tensors, as in Python; `[…]` is any index. For cycles, the
    types of their objects.
    """
    function: Text
    """The function with the variable; "" for a module's."""
    file: Text
    """The file of the function or module; "" if unknown."""
    line: Annotated[int, Meta(ge=0, lt=2**31)]
    """The line that was running in `function`; 0 if there's none."""
    type_name: Text
    """Type of the variable's value."""
    bytes: Bytes
    """Bytes of these allocations."""
    count: Bytes
    """Number of allocations."""
    autograd_bytes: Bytes
    """How many of `bytes` were saved for a backward pass by the autograd graphs of these tensors.
    """
    autograd_count: Bytes
    """How many of `count` were saved for a backward pass."""
    nodes: Annotated[tuple[Text, ...], Meta(max_length=16)]
    """The autograd nodes that saved the most."""
    small_views: Bytes
    """Number of tensors that use less than half of the allocation that they keep."""


class RecordedHolders(Record, frozen=True):
    """The holders of all allocations on all devices when the snapshot was written."""

    groups: Annotated[tuple[HeldBy, ...], Meta(max_length=10_000)]
    """Largest first."""
    other_groups: Bytes
    """Number of groups that weren't stored."""
    other_bytes: Bytes
    """Bytes of the groups that weren't stored."""
    total_bytes: Bytes
    """Bytes of all allocations: those of `groups` plus `other_bytes`."""
    seconds: Annotated[float, Meta(ge=0)]
    """How long the recorder looked."""
    complete: bool
    """Whether it looked at everything in time."""


def recorded_holders(snap: Snapshot) -> RecordedHolders | None:
    """Return the notes; None if they are missing or invalid."""
    found = snap.recorder.get("holders")
    try:
        made = convert(found, RecordedHolders)
    except ValidationError:
        return None
    together = sum(one.bytes for one in made.groups) + made.other_bytes
    return made if together == made.total_bytes else None
