"""Python interface to slices."""

from array import array
from collections.abc import Sequence
from mmap import mmap
from typing import final

from memreplay._core import Tables
from memreplay.engine.query._blockmap import BlockMap
from memreplay.engine.read.column import Column
from memreplay.engine.replay._measures import Blocks, Holding

@final
class Stripped:
    """The stacks without some of their frames."""

    def __new__(cls, tables: Tables, drop: bytes | None) -> Stripped: ...
    @property
    def tables(self) -> Tables: ...

@final
class Excerpt:
    """The part of one device that goes into a slice."""

    def __new__(
        cls,
        holding: Holding,
        blocks: Blocks | None,
        block_map: BlockMap | None,
        stripped: Stripped | None,
        least: int,
    ) -> Excerpt: ...
    @property
    def holding(self) -> Holding: ...
    @property
    def blocks(self) -> Blocks | None: ...
    @property
    def block_map(self) -> BlockMap | None: ...
    @property
    def stripped(self) -> Stripped | None: ...
    @property
    def events(self) -> int: ...
    @property
    def leading(self) -> int: ...
    def kept(self) -> Column: ...
    def leading_addresses(self) -> list[int]: ...
    @property
    def pending(self) -> tuple[int, int]: ...
    @property
    def small(self) -> tuple[int, int]: ...

@final
class Unknown:
    """The unknown items of the snapshot's dict, in the bytes of a pickle."""

    def __new__(cls, data: bytes | memoryview | mmap, at: int, known: list[bytes]) -> Unknown: ...
    def __len__(self) -> int: ...
    def key(self, i: int) -> bytes: ...
    def value(self, i: int) -> bytes: ...
    def flaws(self) -> list[str]: ...

@final
class Pickled:
    """A slice as a pickle of protocol 4: an iterator over bytes, about 1 MiB each."""

    def __new__(
        cls,
        tables: Tables,
        excerpts: list[Excerpt],
        stripped: Stripped | None,
        annotations: array[int],
        values: list[tuple[str, str]],
        traces: int,
        unknown: Unknown | None = None,
        chosen: Sequence[int] = (),
    ) -> Pickled: ...
    def __iter__(self) -> Pickled: ...
    def __next__(self) -> bytes: ...
