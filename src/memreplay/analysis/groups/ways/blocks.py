"""Group by properties of blocks: stream, pool, size, or who held them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from memreplay._core import ABSENT_ID
from memreplay.analysis.groups.ways.base import Known, Way
from memreplay.engine.query import _groups
from memreplay.engine.replay import _measures
from memreplay.snapshot.model import By, Label, Part

if TYPE_CHECKING:
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.recorded_holders import Holder, HoldersOfBlocks
    from memreplay.snapshot.replay import Replay, Usage

NO_STREAM = "(stream not known)"
NO_POOL = "(pool not known)"
OTHERS = "(smaller holders)"
FREED = "(freed before the recorder looked)"
LATER = "(allocated after the recorder looked)"
NOT_NOTED = "(holder not recorded)"
NO_SIZE = 64  # the group number for size 0


def stream_label(stream: int | None) -> str:
    """Return a stream's label. None means unknown."""
    if stream is None:
        return NO_STREAM
    return "default stream" if stream == 0 else f"stream {stream}"


def pool_label(pool: tuple[int, int] | None) -> str:
    """Return a pool's label. None means unknown."""
    if pool is None:
        return NO_POOL
    if pool == (0, 0):
        return "default pool"
    first, second = pool
    kind = "graph pool" if first else "user pool"
    return f"{kind} {first}:{second}"


def part_label(part: Part, by: By) -> str:
    """Return the label of a pool or stream."""
    if by == ByStream.name:
        return stream_label(None if part.stream is UNSET else part.stream)
    return pool_label(None if part.pool is UNSET else part.pool)


def size_label(bits: int) -> str:
    """Return the label for sizes with this bit length, which is 0 for size 0."""
    if bits == 0:
        return "0 B"
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    low = f"{1 << (bits - 1) % 10} {units[(bits - 1) // 10]}"
    high = f"{1 << bits % 10} {units[bits // 10]}"
    return f"{low} to {high}"


class ByPart(Way):
    """Group by a part of a device."""

    of_stacks = False
    of_blocks = True
    parts = True
    detail = True

    def keys(self, usage: Usage) -> Keys:
        classes = usage.replay.classes(self.name)
        return _groups.row_keys(usage.replay.native, classes.of_events(), classes.of_carried())

    def label(self, usage: Usage, name: int) -> Label:
        replay = usage.replay
        unknown = name == _measures.UNKNOWN_CLASS
        key = None if unknown else replay.classes(self.name).keys()[name]
        return Label(self.label_of(replay, key))

    def labels(self, replay: Replay) -> list[str]:
        """Return the labels of a device's parts, in order."""
        keys = replay.classes(self.name).keys()
        return [self.label_of(replay, key) for key in keys]

    def label_of(self, replay: Replay, key: int | None) -> str:
        """Return the label of the part with this key."""
        raise NotImplementedError


class ByStream(ByPart):
    """Group by stream."""

    name = "stream"
    help = "are in the same stream"
    nothing = Way.nothing | {NO_STREAM}

    def label_of(self, replay: Replay, key: int | None) -> str:
        return stream_label(key)


class ByPool(ByPart):
    """Group by memory pool."""

    name = "pool"
    help = "are in the same memory pool"
    nothing = Way.nothing | {NO_POOL}

    def label_of(self, replay: Replay, key: int | None) -> str:
        return pool_label(replay.pool_of(key))


class BySize(Way):
    """Group by size, in powers of two of the measure's bytes."""

    name = "size"
    help = "have from 2^n to 2^(n+1) - 1 bytes of the measure"
    of_stacks = False
    of_blocks = True
    of_measure = True

    def keys(self, usage: Usage) -> Keys:
        return _groups.size_keys(usage.native)

    def label(self, usage: Usage, name: int) -> Label:
        return Label(size_label(0 if name >= NO_SIZE else name + 1))


class ByHolder(Way):
    """Group by the Python object that kept an allocation alive when the snapshot was written.

    Allocations without a free are matched by address, because only they exist at that moment.
    """

    name = "holder"
    help = "were [kept alive by the same Python object](holders.md) when the snapshot was written"
    title = "held by"
    of_stacks = False
    nothing = Way.nothing | {NOT_NOTED}
    detail = True
    freed = ABSENT_ID - 1  # as in HoldersOfBlocks
    """The group of allocations that were freed before that."""
    later = ABSENT_ID - 2
    """The group of allocations that didn't exist yet."""
    not_noted = ABSENT_ID
    """The group of allocations without a note."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.holders: tuple[Holder, ...] = ()
        self.blocks: HoldersOfBlocks | None = None
        if known.snap.recorder.get("holders"):
            # Imported late: few files need it.
            from memreplay.snapshot.recorded_holders import holders_of_blocks, recorded_holders

            noted = recorded_holders(known.snap)
            if noted is not None:
                self.holders, self.blocks = noted.groups, holders_of_blocks(known.snap)

    def keys(self, usage: Usage) -> Keys:
        replay = usage.replay
        if self.blocks is None or self.is_uninformative(replay):
            return _groups.row_keys(replay.native, self.not_noted, self.not_noted)
        return _groups.row_keys(replay.native, *self.blocks.of(replay))

    def label(self, usage: Usage, name: int) -> Label:
        if name < len(self.holders):
            return Label(self.holders[name].label)
        if name == self.not_noted:
            return Label(NOT_NOTED)
        return Label({self.freed: FREED, self.later: LATER}.get(name, OTHERS))

    def is_uninformative(self, replay: Replay) -> bool:
        """Whether the holders weren't noted, or not at the end of what was read."""
        return self.blocks is None or self.blocks.moment(replay) is None
