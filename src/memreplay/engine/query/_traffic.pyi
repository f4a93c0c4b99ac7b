"""Python interface to allocations and frees between two events."""

from typing import TypeAlias

from memreplay.engine.query._groups import Keys
from memreplay.engine.read.column import Column
from memreplay.engine.replay._timeline import Measure

# bytes and allocations: live before the range, allocated in it, freed in it
_Sums: TypeAlias = tuple[int, int, int, int, int, int]
# the group's name, then the six numbers of _Sums
_Row: TypeAlias = tuple[int, int, int, int, int, int, int]
# the changed groups, largest change first; their number; their totals; the totals of all other
# groups
_Found: TypeAlias = tuple[list[_Row], int, _Sums, _Sums]

def traffic(
    measure: Measure,
    keys: Keys,
    live: tuple[Column, Column],
    begin: int,
    end: int,
    top: int,
) -> _Found: ...
