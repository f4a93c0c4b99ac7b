"""Python interface to steps."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from memreplay.engine.query._groups import Keys
from memreplay.engine.read.column import Column
from memreplay.engine.replay._timeline import Measure, Replay

LEAST_ROUNDS: Final[int]
LEAST_RISES: Final[int]

_Row: TypeAlias = tuple[
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    bool,
    int,
    int,
    int,
    float,
    int,
    bool,
]
_Totals: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]

def step_sums(
    replay: Replay,
    measure: Measure | None,
    usage: Column,
    start: int,
    spans: Sequence[tuple[int, int]],
) -> list[tuple[int, int, int, int, int]]: ...
def judge(
    values: Sequence[int], warm: int, least: int
) -> tuple[bool, int, int, int, int, int, bool, int, float]: ...
def groups_grown(
    measure: Measure,
    keys: Keys,
    moments: Sequence[int],
    levels: Sequence[int],
    warm: int,
    old: int,
    least: int,
    top: int,
) -> tuple[list[_Row], int, list[_Row], int, _Totals, list[int]]: ...
def find_period(
    replay: Replay, usage: Column, start: int, by: str
) -> tuple[Column, float, int]: ...
def find_recurrence(
    replay: Replay, usage: Column, start: int, by_size: bool
) -> tuple[Column, float, Column, float]: ...
def count_optimizers(replay: Replay) -> int: ...
def find_optimizer_steps(replay: Replay, zeroed: bool) -> Column: ...
