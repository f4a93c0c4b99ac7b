"""Python interface to allocation statistics over the events of a measure."""

from typing import Final, TypeAlias, TypedDict

from memreplay.engine.query._groups import Keys
from memreplay.engine.replay._timeline import Measure

SORT: Final[dict[str, int]]

# the group's name; number and bytes of all its allocations, of temporary and of live allocations;
# total lifetime of freed allocations in events; number of freed allocations with times, and total
# lifetime of these in microseconds
_Row: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int]

class _Allocations(TypedDict):
    """Result of `allocations`.

    A class is (number, count, bytes).

    Size class k has sizes from 2^k on, 64 is size 0; lifetime class 0 is 0, class k from 10^(k - 1)
    on. Medians of nothing are 0.
    """

    whole: _Row
    rows: list[_Row]
    groups: int
    sizes: list[tuple[int, int, int]]
    lifetimes_events: list[tuple[int, int, int]]
    lifetimes_us: list[tuple[int, int, int]] | None
    untimed: tuple[int, int]
    carried: tuple[int, int]
    carried_freed: tuple[int, int]
    grown: int
    min_bytes: int
    max_bytes: int
    median_bytes: int
    median_events: int
    median_us: int
    times: tuple[int, int] | None

def allocations(
    measure: Measure, keys: Keys, sort: str, top: int, threshold: int
) -> _Allocations: ...
