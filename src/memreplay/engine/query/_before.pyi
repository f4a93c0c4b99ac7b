"""Python interface to guesses about memory from before the recording."""

from typing import Final

from memreplay.engine.read.column import Column
from memreplay.engine.replay._timeline import Replay

IN_BACKWARD: Final[int]
OF_BACKWARD: Final[int]
AT_ZERO_GRAD: Final[int]
AT_EXIT: Final[int]
IN_OPTIMIZER: Final[int]
ONE_STATE: Final[int]
TWO_STATES: Final[int]

def any_stackless(replay: Replay) -> bool: ...
def likely(replay: Replay, only_python: bool, marks: bytes) -> Column: ...
