"""Python interface to simulations: a recorded program with other allocator settings."""

from collections.abc import Sequence
from typing import Final, final

from typing_extensions import Buffer

from memreplay.engine.read.column import Column
from memreplay.engine.replay._measures import Blocks, Holding
from memreplay.engine.replay._timeline import Measure

FREE: Final[int]
USED: Final[int]
PENDING: Final[int]
UNMAPPED: Final[int]

@final
class Changed:
    """A changed program: other sizes, and calls that the recorded program doesn't make."""

    def __new__(
        cls,
        holding: Holding,
        sizes: Buffer,
        at: Buffer,
        owner: Buffer,
        makes: Buffer,
        like: Buffer,
        added: Buffer,
    ) -> Changed: ...

@final
class Simulation:
    """One device's program with these allocator settings. Sizes are in bytes."""

    def __new__(
        cls,
        blocks: Blocks,
        holding: Holding,
        *,
        divisions: Sequence[int],
        max_split: int,
        max_non_split: int,
        large_segment: int,
        expandable: bool,
        total: int = -1,
        allowed: int = -1,
        collect_from: int = -1,
        space: int = ...,
        reuses: bool = False,
        recorded_limit: int = -1,
        recorded_collect_from: int = -1,
        recorded_handle: int = ...,
        edited: Measure | None = None,
        factor: float = 1.0,
        twice: bool = False,
        changed: Changed | None = None,
        log: bool = True,
        trace: bool = False,
        stop_at_difference: bool = False,
    ) -> Simulation: ...
    @property
    def blocks(self) -> Blocks: ...
    @property
    def holding(self) -> Holding: ...
    @property
    def reserved_peak(self) -> tuple[int, int]: ...
    @property
    def active_peak(self) -> tuple[int, int]: ...
    @property
    def edited(self) -> Measure | None: ...
    @property
    def requested_peak(self) -> tuple[int, int]: ...
    @property
    def recorded_retries(self) -> int: ...
    @property
    def recorded_shortfall(self) -> int | None: ...
    @property
    def unplaced(self) -> int: ...
    @property
    def changes_all(self) -> bool: ...
    @property
    def resynced_at(self) -> int | None: ...
    @property
    def reuses(self) -> bool: ...
    @property
    def misplaced(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def driver_allocs(self) -> int: ...
    @property
    def driver_frees(self) -> int: ...
    @property
    def retries(self) -> int: ...
    def failed(self) -> list[int]: ...
    @property
    def stopped_at(self) -> int | None: ...
    @property
    def mapped_ranges(self) -> int: ...
    @property
    def reproduced(self) -> tuple[int, int, int]: ...
    def trace(self) -> dict[str, Column]: ...
    def final_state(self) -> tuple[dict[str, Column], dict[str, Column]]: ...
    def log(self) -> list[tuple[int, int, int, int, int, int | None]]: ...
    def segments(
        self,
    ) -> list[tuple[int, int, int | None, bool, bool, list[tuple[int, int, int, int | None]]]]: ...

def segment_bytes(request: int, *, large_segment: int, expandable: bool) -> int: ...
