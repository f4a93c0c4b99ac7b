"""The façade over what was allocated over the events of a measure: what Python may call of it."""

from typing import Final, TypeAlias, TypedDict

from memreplay.engine.query._groups import Keys
from memreplay.engine.replay._timeline import Measure

SORT: Final[dict[str, int]]

# the group's name, count, bytes, temporary count and bytes, live count and bytes, lifetime in
# events (of those that ended), how many that ended are timed, lifetime of these in microseconds
_Row: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int]

class _Allocations(TypedDict):
    """What `allocations` finds. A class is (number, count, bytes).

    Size class k is of sizes from 2^k on, 64 of size 0; lifetime class 0 is 0, class k is from
    10^(k - 1) on. Medians are 0 of nothing.
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
