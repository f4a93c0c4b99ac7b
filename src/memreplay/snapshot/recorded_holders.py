"""Validate the notes on the holders of memory, because the file is untrusted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, ValidationError, convert
from msgspec.structs import replace

from memreplay._core import ABSENT_ID
from memreplay.engine.query._vectors import constant, vector
from memreplay.snapshot.record import Record
from memreplay.texts import clean_short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memreplay.engine.query._vectors import Vector
    from memreplay.snapshot.replay import Replay
    from memreplay.snapshot.snapshot import Snapshot

NOT_NOTED = ABSENT_ID  # the group of blocks without notes
FREED = ABSENT_ID - 1  # the group of blocks that were freed before the recorder looked
LATER = ABSENT_ID - 2  # the group of blocks that were allocated after that
SHOWN = 20  # maximum number of groups in a report
LONGEST = 120  # maximum length of a name, in characters
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
LookedWhen = Literal["end", "oom"]
_WORDS = {
    "parameters": "parameters of {name}",
    "gradients": "gradients of {name}",
    "optimizer state": "state of {name}",
}


class Holder(Record, frozen=True):
    """A Python object that keeps allocations alive."""

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

    @property
    def words(self) -> str:
        """The object and the function that has it, without the place in the code."""
        name = clean_short(self.name, LONGEST)
        if self.kind == "cycle":
            return f"reference cycle of {name}" if name else "reference cycle"
        if self.kind == "unknown":
            return f"{name}, of a function or C++ code" if name else "C++ code, or not found"
        words = _WORDS.get(self.kind, "{name}").format(name=name or "…")
        if self.type_name and self.type_name != "Tensor":
            words += f" ({clean_short(self.type_name, LONGEST)})"
        return f"{words} in {clean_short(self.function, LONGEST)}()" if self.function else words

    @property
    def label(self) -> str:
        """Like `words`, with the name of the file and the line."""
        file = clean_short(re.split(r"[\\/]", self.file)[-1], LONGEST)
        place = f"{file}:{self.line}" if file and self.line else file
        return f"{self.words} {place}" if place else self.words


class HeldBy(Holder, frozen=True):
    """Allocations that the same Python object keeps alive."""

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


class HeldPool(Holder, frozen=True):
    """The holder of a private pool: a CUDA graph, or a `torch.cuda.MemPool`."""

    bytes: Bytes
    """Bytes that the pool reserves and that no allocation uses."""
    pool: tuple[Bytes, Bytes]
    """The pool's id."""

    @property
    def words(self) -> str:
        """The holder, without the place in the code."""
        return "C++ code, or not found" if self.kind == "unknown" else super().words


class HeldPinned(Holder, frozen=True):
    """Pinned memory of the host that the same Python object keeps alive."""

    bytes: Bytes
    """Bytes of these storages."""
    count: Bytes
    """Number of storages, each of at least 64 KiB."""


class RecordedHolders(Record, frozen=True):
    """The holders of all allocations on all devices when the recorder looked."""

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
    when: LookedWhen = "end"
    """When the recorder looked: at the `end` of the recording, or when memory first ran out (`oom`)
    in a dry run.
    """
    pools: Annotated[tuple[HeldPool, ...], Meta(max_length=10_000)] = ()
    """Private pools whose memory isn't in use, largest first. Their bytes aren't in `total_bytes`.
    """
    pinned: Annotated[tuple[HeldPinned, ...], Meta(max_length=10_000)] = ()
    """The largest holders of pinned memory. Their bytes aren't in `total_bytes`."""

    def largest(self, most: int = SHOWN) -> RecordedHolders:
        """Return only the largest groups."""
        left = self.groups[most:]
        return replace(
            self,
            groups=self.groups[:most],
            other_groups=self.other_groups + len(left),
            other_bytes=self.other_bytes + sum(one.bytes for one in left),
        )


class HoldersOfBlocks:
    """The holder of each block when the recorder looked.

    Parameters
    ----------
    addresses : Vector
        Addresses of blocks (u64).
    groups : Vector
        For each address, the index of its group (u32).
    events : list of int, optional
        For each device, how many events it had when the recorder looked; all if that was at the
        end.
    """

    def __init__(
        self, addresses: Vector, groups: Vector, events: Sequence[int] | None = None
    ) -> None:
        self._events = events
        order = addresses.order()
        self._addresses, self._groups = addresses[order], groups[order]

    def moment(self, replay: Replay) -> int | None:
        """Return the event after which the recorder looked at this device's memory; None if that
        isn't among the events that were read.
        """
        last = replay.first_event + replay.events - 1
        if self._events is None:
            return last if replay.native.reaches_end else None
        if not 0 <= replay.device < len(self._events):
            return None
        at = self._events[replay.device] - 1
        return at if replay.first_event - 1 <= at <= last else None

    def of(self, replay: Replay) -> tuple[Vector, Vector]:
        """Return the index of the group of each allocation, by event, and of each carried-over
        block (u32). FREED and LATER: allocations that didn't exist when the recorder looked.
        NOT_NOTED: no note.
        """
        moment = self.moment(replay)
        assert moment is not None
        measure, at = replay.measure().native, moment - replay.first_event
        of_events = self._living(replay.vector("address", "Q"), vector(measure.ends()), at)
        of_events[at + 1 :] = LATER
        carried = vector(replay.carried("address"))
        return of_events, self._living(carried, vector(measure.carried_ends()), at)

    def _living(self, addresses: Vector, ends: Vector, at: int) -> Vector:
        """Return the groups of blocks that weren't freed up to an event."""
        found = constant(FREED, len(ends), "I").copy()
        living = ends.as_format("q") > at
        found[living] = self._at(addresses[living])
        return found

    def _at(self, addresses: Vector) -> Vector:
        found = constant(NOT_NOTED, len(addresses), "I").copy()
        if len(self._addresses):
            at = self._addresses.places(addresses).lower(len(self._addresses) - 1)
            known = self._addresses[at] == addresses
            found[known] = self._groups[at[known]]
        return found


def recorded_holders(snap: Snapshot) -> RecordedHolders | None:
    """Return the notes; None if they are missing or invalid."""
    found = snap.recorder.get("holders")
    if found is None:
        return None  # before msgspec reads the fields' types, which takes a millisecond
    try:
        made = convert(found, RecordedHolders)
    except ValidationError:
        return None
    together = sum(one.bytes for one in made.groups) + made.other_bytes
    return made if together == made.total_bytes else None


def largest_holders(snap: Snapshot) -> RecordedHolders | None:
    """Return the notes with only as many groups as a report lists."""
    found = recorded_holders(snap)
    return None if found is None else found.largest()


def holders_of_blocks(snap: Snapshot) -> HoldersOfBlocks | None:
    """Return who held each block; None if that's missing or invalid."""
    from memreplay.snapshot.recorded import SPARE, FlawError, unpacked  # imported late

    found = snap.recorder.get("holders")
    if not isinstance(found, dict) or not isinstance(found.get("blocks"), dict):
        return None
    blocks = found["blocks"]
    most = snap.native.n_blocks + SPARE
    try:
        addresses = unpacked(blocks.get("addresses"), most, "Q")
        groups = unpacked(blocks.get("holders"), most, "I")
    except FlawError:
        return None
    events = found.get("events")
    if len(addresses) != len(groups) or not (events is None or _are_counts(events)):
        return None
    return HoldersOfBlocks(addresses, groups, events)


def _are_counts(found: object) -> bool:
    return isinstance(found, list) and all(type(one) is int and 0 <= one < 2**32 for one in found)
