"""Python interface to grouping allocations."""

from collections.abc import Sequence
from typing import Final, final

from typing_extensions import Buffer, Never

from memreplay.engine.read.column import Column
from memreplay.engine.replay._timeline import Measure, Replay

KINDS: Final[dict[str, int]]
NODE_BIT: Final[int]
NO_STACK: Final[int]
CARRIED: Final[int]
NO_RULE: Final[int]
CALL_NO_STACK: Final[int]
CALL_CARRIED: Final[int]
OF_OPTIMIZER: Final[int]
OF_PROGRAM: Final[int]
CALLED_BACK: Final[int]
IS_CAST: Final[int]
IS_EXIT: Final[int]
IS_LOWER: Final[int]
NO_SOURCE: Final[int]
A_WEIGHT: Final[int]
AN_ACTIVATION: Final[int]
UNSURE: Final[int]

@final
class Keys:
    """The group of each allocation and carried-over block of a replay.

    Groups have names (numbers).
    """

    def __init__(self, *args: Never) -> None: ...
    @property
    def replay(self) -> Replay: ...
    @property
    def of(self) -> tuple[Keys, ...]: ...
    def names(self) -> Column: ...
    def find_all(self) -> int: ...
    def of_stacks(self) -> Column | None: ...
    def keep(self, measure: Measure, groups: Buffer) -> Measure: ...
    def numbers(self, events: Buffer, blocks: Buffer) -> tuple[Column, Column]: ...
    def layers(
        self, measure: Measure, wanted: Sequence[int], samples: Sequence[int]
    ) -> list[Column]: ...
    def bests(self, measure: Measure, top: int) -> tuple[list[tuple[int, int, int, int]], int]: ...
    def path(self, name: int) -> tuple[int, ...]: ...
    def sums(
        self, live: tuple[Column, Column], measure: Measure, top: int
    ) -> tuple[list[tuple[int, int, int, int, int]], int, int, int]: ...

def stack_keys(
    replay: Replay, kind: str, file_rank: bytes, function_rank: bytes, forwards: Buffer = b""
) -> Keys: ...
def row_keys(replay: Replay, of_event: Buffer | int, of_carried: Buffer | int) -> Keys: ...
def run_keys(replay: Replay, runs: Sequence[tuple[int, int]], of_carried: int) -> Keys: ...
def size_keys(measure: Measure) -> Keys: ...
def origin_keys(
    replay: Replay,
    before: bool,
    only_python: bool,
    marks: bytes,
    categories: Keys,
    roles: bytes,
    of_carried: Buffer | None = None,
) -> Keys: ...
def passing_keys(replay: Replay, marks: bytes) -> Keys: ...
def pair(first: Keys, second: Keys) -> Keys: ...
def renamed(keys: Keys, names: Buffer) -> Keys: ...
def rule_keys(
    replay: Replay,
    any_frame: Buffer,
    own_frame: Buffer,
    always: int,
    file_rank: bytes,
    function_rank: bytes,
    masks: Buffer | None = None,
) -> Keys: ...
def rules_of_both(first: Keys, second: Keys) -> Keys: ...
def first_rule(rules: Keys, names: Buffer | None = None) -> Keys: ...
def call_tree(
    stacks: Keys,
    live: tuple[Column, Column],
    measure: Measure,
    whole: bool,
    depth: int,
    least: int,
    inverted: bool = False,
) -> list[tuple[int, tuple[int, ...], int, int, int, int, int]]: ...
