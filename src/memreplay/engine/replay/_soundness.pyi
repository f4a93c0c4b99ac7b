"""The façade over checks of a replay: can what was live and what was reserved both be true?"""

from memreplay.engine.read.column import Column
from memreplay.engine.replay._measures import Reserved

def soundness(reserved: Reserved) -> dict[str, int]: ...
def first_above(low: Column, low_start: int, high: Column, high_start: int) -> int | None: ...
