"""Python interface to encoding columns for the page."""

from typing import final

from typing_extensions import Buffer

from memreplay.engine.query._vectors import Vector

@final
class Folded:
    """Numbers in zigzag encoding: the values minus `less`, or the differences between rows."""

    def __new__(cls, values: Vector, less: Vector | None, differences: bool) -> Folded: ...
    def highest(self) -> int: ...
    def split(self, width: int, out: Buffer) -> None: ...
