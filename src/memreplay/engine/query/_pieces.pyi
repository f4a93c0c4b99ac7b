"""The façade over columns in pieces: what Python may call to write long ones a part at a time."""

from typing import final

from memreplay.engine.read.column import Column
from memreplay.engine.replay._timeline import Measure

@final
class Pieces:
    """The series of measures of a replay, `rows` events at a time.

    The same allocations count in all of them, and end at the same events: measures differ in bytes
    alone. They must not change meanwhile. Raises ValueError.
    """

    def __new__(cls, measures: tuple[Measure, ...], rows: int) -> Pieces: ...
    @property
    def measures(self) -> tuple[Measure, ...]: ...
    def next(self) -> list[Column]: ...
