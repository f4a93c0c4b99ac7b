"""Group by properties of blocks: stream, pool or size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from memreplay.analysis.groups.ways.base import Way
from memreplay.engine.query import _groups
from memreplay.engine.replay import _measures
from memreplay.snapshot.model import By, Label, Part

if TYPE_CHECKING:
    from memreplay.engine.query._groups import Keys
    from memreplay.snapshot.replay import Replay, Usage

NO_STREAM = "(stream not known)"
NO_POOL = "(pool not known)"
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
