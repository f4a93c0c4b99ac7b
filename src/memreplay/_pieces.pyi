"""The façade over columns in pieces: what Python may call to write long ones a part at a time."""

from typing import final

from memreplay._native.column import Column
from memreplay._timeline import Measure

@final
class Pieces:
    """A measure's series, `rows` events at a time; the measure must not change meanwhile."""

    def __new__(cls, measure: Measure, rows: int) -> Pieces: ...
    @property
    def measure(self) -> Measure: ...
    def next(self) -> Column: ...
