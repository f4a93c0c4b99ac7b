"""The façade over what came and went between two events: what Python may call of it."""

from typing import TypeAlias

from memreplay.engine.query._groups import Keys
from memreplay.engine.read.column import Column
from memreplay.engine.replay._timeline import Measure

# live before, made in the range, ended in it: bytes and allocations of each
_Sums: TypeAlias = tuple[int, int, int, int, int, int]
# the group's name, then these
_Row: TypeAlias = tuple[int, int, int, int, int, int, int]
# the groups to which anything came or from which anything went, those that changed most first; how
# many there are; their sums; and the sums of all other groups
_Found: TypeAlias = tuple[list[_Row], int, _Sums, _Sums]

def traffic(
    measure: Measure,
    keys: Keys,
    live: tuple[Column, Column],
    begin: int,
    end: int,
    top: int,
) -> _Found: ...
