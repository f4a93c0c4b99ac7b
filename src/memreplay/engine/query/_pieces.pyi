"""Python interface to series in parts, for writing long ones."""

from typing import final

from memreplay.engine.read.column import Column
from memreplay.engine.replay._timeline import Measure

@final
class Pieces:
    """The series of measures of a replay, `rows` events at a time.

    All measures must count the same allocations with the same ends; only bytes may differ. They
    must not change meanwhile. Raises ValueError.
    """

    def __new__(cls, measures: tuple[Measure, ...], rows: int) -> Pieces: ...
    @property
    def measures(self) -> tuple[Measure, ...]: ...
    def next(self) -> list[Column]: ...
